package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// Writes for one pod come in order, the newest is never lost, and the caller
// does not wait.
func TestStatusIsWrittenLaterAndNewestLast(t *testing.T) {
	client := fake.NewClientset()
	var mu sync.Mutex
	got := map[string][]string{}
	gate := make(chan struct{})
	client.PrependReactor("patch", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		<-gate
		p := a.(k8stesting.PatchAction)
		mu.Lock()
		defer mu.Unlock()
		got[p.GetName()] = append(got[p.GetName()], string(p.GetPatch()))
		return true, &v1.Pod{}, nil
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c := newLaterStatus(ctx, client)
	const pods, versions = 20, 30
	for v := range versions {
		for p := range pods {
			body := fmt.Sprintf(`{"status":{"conditions":[{"type":"PodScheduled","message":"%03d"}]}}`, v)
			if _, err := c.CoreV1().Pods("a").Patch(ctx, fmt.Sprint(p), types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, "status"); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(gate)
	last := fmt.Sprintf("%03d", versions-1)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		mu.Lock()
		done := len(got) == pods
		for _, list := range got {
			done = done && strings.Contains(list[len(list)-1], last)
		}
		mu.Unlock()
		if done {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not all written: %v", got)
		}
	}
	for name, list := range got {
		if !slices.IsSorted(list) {
			t.Errorf("pod %s: out of order: %v", name, list)
		}
	}
}

func TestOtherPatchesAreNotPutOff(t *testing.T) {
	client := fake.NewClientset(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "victim"}})
	c := newLaterStatus(t.Context(), client)
	body := `{"status":{"conditions":[{"type":"DisruptionTarget","status":"True"}]}}`
	if _, err := c.CoreV1().Pods("a").Patch(t.Context(), "victim", types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	p, err := client.CoreV1().Pods("a").Get(t.Context(), "victim", metav1.GetOptions{})
	if err != nil || len(p.Status.Conditions) != 1 {
		t.Errorf("not written when the call returned: %v %v", p.Status, err)
	}
}
