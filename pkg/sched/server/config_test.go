package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched"
)

type heard struct {
	mu    sync.Mutex
	notes []string
}

func (h *heard) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, reason+": "+fmt.Sprintf(note, args...))
}

func (h *heard) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.notes, "\n")
}

func TestSettingsAreFollowedWithoutARestart(t *testing.T) {
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: kube.Namespace, Name: kube.ConfigMap},
		Data: map[string]string{kube.ConfigKey: "memoryUnit: MiB\n"}}
	client := fake.NewClientset(cm)
	first := firstConfig(t.Context(), client)
	if first.Unit != config.MiB {
		t.Fatalf("the first read gives unit %s", first.Unit)
	}
	state, events := sched.NewState(first), &heard{}
	watchConfig(t.Context(), client, state, events)
	becomes := func(what string, want config.Unit, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); state.Config().Unit != want || !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: unit is %s, events: %s", what, state.Config().Unit, events.all())
			}
		}
	}
	set := func(text string) {
		t.Helper()
		cm = cm.DeepCopy()
		cm.Data[kube.ConfigKey] = text
		if _, err := client.CoreV1().ConfigMaps(kube.Namespace).Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	always := func() bool { return true }
	set("memoryUnit: GiB\n")
	becomes("changed", config.GiB, always)
	set("memoryUnit: MiB\n")
	becomes("changed back", config.MiB, always)
	set("memoryUnit: parsecs\n")
	becomes("garbage means defaults, with an event", config.GiB, func() bool { return strings.Contains(events.all(), "ConfigUnreadable") })
	set("memoryUnit: MiB\n")
	becomes("mended", config.MiB, always)
	if err := client.CoreV1().ConfigMaps(kube.Namespace).Delete(t.Context(), kube.ConfigMap, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	becomes("deleted means defaults", config.GiB, always)
}
