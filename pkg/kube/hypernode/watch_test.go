package hypernode

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"lj.aliyun.com/kit/pkg/core/netplace"
	"lj.aliyun.com/kit/pkg/kube"
)

// long is far more than anything here takes.
const long = time.Minute

func object(name string, tier int64, nodes ...string) *unstructured.Unstructured {
	members := []any{}
	for _, n := range nodes {
		members = append(members, map[string]any{"type": "Node", "selector": map[string]any{"exactMatch": map[string]any{"name": n}}})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"tier": tier, "members": members}}}
}

func client(objects ...runtime.Object) *fake.FakeDynamicClient {
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{kube.HyperNodes: "HyperNodeList"}, objects...)
}

// sink keeps what Watch reports.
type sink struct {
	mu    sync.Mutex
	trees []*netplace.Tree
	news  chan struct{}
}

func newSink() *sink { return &sink{news: make(chan struct{}, 100)} }

func (s *sink) changed(t *netplace.Tree) {
	s.mu.Lock()
	s.trees = append(s.trees, t)
	s.mu.Unlock()
	s.news <- struct{}{}
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.trees)
}

// next waits for one more report.
func (s *sink) next(t *testing.T) *netplace.Tree {
	t.Helper()
	select {
	case <-s.news:
	case <-time.After(long):
		t.Fatal("no change was reported")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trees[len(s.trees)-1]
}

func watch(t *testing.T, c *fake.FakeDynamicClient, wait time.Duration, s *sink) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done, err := Watch(ctx, c, wait, s.changed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); done() })
}

func TestTheFirstListIsThereWhenWatchReturns(t *testing.T) {
	s := newSink()
	watch(t, client(object("s0", 1, "a"), object("s1", 1, "b")), long, s)
	if s.count() != 1 {
		t.Fatalf("%d reports, want 1", s.count())
	}
	if got := s.next(t).At("b", nil).HyperNode; got != "s1" {
		t.Errorf("b is in %q", got)
	}
}

func TestChangesOfSpecsAreReportedAndOfStatusAreNot(t *testing.T) {
	c, s := client(object("s0", 1, "a")), newSink()
	watch(t, c, long, s)
	s.next(t)
	r := c.Resource(kube.HyperNodes)
	counted := object("s0", 1, "a")
	counted.Object["status"] = map[string]any{"nodeCount": int64(1)}
	update := func(o *unstructured.Unstructured) {
		if _, err := r.Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update(counted)
	time.Sleep(2 * settle)
	if s.count() != 1 {
		t.Errorf("a change of the status was reported")
	}
	update(object("s0", 1, "b"))
	if got := s.next(t); got.At("a", nil).HyperNode != "" || got.At("b", nil).HyperNode != "s0" {
		t.Error("the change of the members is not in the network")
	}
	if err := r.Delete(t.Context(), "s0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := s.next(t); got.Len() != 0 || got.At("b", nil).HyperNode != "" {
		t.Error("the network outlives its last HyperNode")
	}
}

func TestNoObjectsAreNoNetwork(t *testing.T) {
	s := newSink()
	watch(t, client(), long, s)
	if s.count() != 0 {
		t.Error("a network without HyperNodes was reported")
	}
}

func TestAnAPIThatIsNotServedIsFoundLater(t *testing.T) {
	resource := kube.HyperNodes.GroupResource()
	for name, refusal := range map[string]error{
		"not served": apierrors.NewNotFound(resource, ""),
		"forbidden":  apierrors.NewForbidden(resource, "", nil),
		"an error":   apierrors.NewInternalError(context.DeadlineExceeded),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s := client(object("s0", 1, "a")), newSink()
			var served atomic.Bool
			c.PrependReactor("list", "hypernodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				return !served.Load(), nil, refusal
			})
			watch(t, c, long, s) // returns: the test would run out of time
			if s.count() != 0 {
				t.Error("a network was reported that nobody can know")
			}
			served.Store(true)
			if s.next(t).At("a", nil).HyperNode != "s0" {
				t.Error("a is not in s0")
			}
		})
	}
}

func TestAServerThatDoesNotAnswerDelaysNobody(t *testing.T) {
	c, s := client(), newSink()
	hang := make(chan struct{})
	c.PrependReactor("list", "hypernodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-hang
		return false, nil, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	done, err := Watch(ctx, c, 10*time.Millisecond, s.changed)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	close(hang) // a real client gives up when ctx ends
	done()
	if s.count() != 0 {
		t.Error("a network was reported without an answer")
	}
}

func TestHostileObjectsArePassedOver(t *testing.T) {
	broken := object("broken", 1)
	broken.Object["spec"] = map[string]any{"tier": "low"}
	s := newSink()
	watch(t, client(object("s0", 1, "a"), broken), long, s)
	if got := s.next(t); got.At("a", nil).HyperNode != "s0" || len(got.Problems()) != 1 {
		t.Errorf("problems: %v", got.Problems())
	}
}
