package simnode

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"lj.aliyun.com/kit/pkg/core/config"
)

func quantity(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// fixture is kubelets of one node "n" on a fake API server and a fake clock.
type fixture struct {
	*Kubelets
	client *fake.Clientset
	clock  *clocktesting.FakeClock
	made   atomic.Int64
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{client: fake.NewClientset(), clock: clocktesting.NewFakeClock(zero)}
	f.Kubelets = New(Options{Client: f.client, Config: config.Default(), Timing: timing, Clock: f.clock})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := f.Run(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Stop)
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: list("cpu", "4", "pods", "10")}}
	dead := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "dead"}, Status: v1.NodeStatus{Allocatable: list("cpu", "4", "pods", "10")}}
	if err := f.Add(ctx, []*v1.Node{node, dead}, func(name string) bool { return name != "dead" }); err != nil {
		t.Fatal(err)
	}
	f.eventually(t, "the nodes seen", func() (bool, string) {
		_, err1 := f.nodes.Get("n")
		_, err2 := f.nodes.Get("dead")
		return err1 == nil && err2 == nil, ""
	})
	return f
}

// eventually lets the fake clock run until a condition holds.
func (f *fixture) eventually(t *testing.T, what string, ok func() (bool, string)) {
	t.Helper()
	last := ""
	for range 2000 {
		done, seen := ok()
		if done {
			return
		}
		last = seen
		f.clock.Step(100 * time.Millisecond)
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("%s never; last seen: %s", what, last)
}

func (f *fixture) create(t *testing.T, name, node, cpu string, annotations map[string]string) {
	t.Helper()
	pod := asking("cpu", cpu)
	pod.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(fmt.Sprintf("uid-%s-%d", name, f.made.Add(1))), Annotations: annotations}
	pod.Spec.NodeName, pod.Spec.RestartPolicy, pod.Status.Phase = node, v1.RestartPolicyNever, v1.PodPending
	if _, err := f.client.CoreV1().Pods("ns").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) phase(t *testing.T, name string, want v1.PodPhase, reason string) {
	t.Helper()
	f.eventually(t, fmt.Sprintf("%s %s", name, want), func() (bool, string) {
		p, err := f.client.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return p.Status.Phase == want && p.Status.Reason == reason, fmt.Sprintf("%s %q", p.Status.Phase, p.Status.Reason)
	})
}

func TestPodRunsAndItsRoomIsGivenBack(t *testing.T) {
	f := newFixture(t)
	f.create(t, "first", "n", "3", map[string]string{RunForAnnotation: "1m"})
	f.phase(t, "first", v1.PodRunning, "")
	f.create(t, "second", "n", "3", nil)
	f.phase(t, "second", v1.PodFailed, "OutOfcpu")
	f.phase(t, "first", v1.PodSucceeded, "")
	f.create(t, "third", "n", "3", nil)
	f.phase(t, "third", v1.PodRunning, "")
}

func TestPodsOfOtherNodesAreLeftAlone(t *testing.T) {
	f := newFixture(t)
	f.create(t, "foreign", "real-node", "1", nil)
	f.create(t, "on-dead", "dead", "1", nil)
	f.create(t, "mine", "n", "1", nil)
	f.phase(t, "mine", v1.PodRunning, "")
	for _, name := range []string{"foreign", "on-dead"} {
		if p, err := f.client.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{}); err != nil || p.Status.Phase != v1.PodPending {
			t.Errorf("%s: %v, phase %s, want it untouched", name, err, p.Status.Phase)
		}
	}
}

func TestANewPodOfTheSameNameStartsAnew(t *testing.T) {
	f := newFixture(t)
	f.create(t, "p", "n", "3", nil)
	f.phase(t, "p", v1.PodRunning, "")
	if err := f.client.CoreV1().Pods("ns").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.create(t, "p", "n", "4", nil) // does not fit beside the first
	f.phase(t, "p", v1.PodRunning, "")
}

func TestLeasesAreRenewed(t *testing.T) {
	f := newFixture(t)
	renewed := func() time.Time {
		l, err := f.client.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(t.Context(), "n", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return l.Spec.RenewTime.Time
	}
	first := renewed()
	f.eventually(t, "a second renewal", func() (bool, string) { return renewed().After(first.Add(5 * time.Second)), renewed().String() })
	if _, err := f.client.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(t.Context(), "dead", metav1.GetOptions{}); err == nil {
		t.Error("a node whose kubelet does not answer has a lease")
	}
}

// A laptop that slept wakes up with every node declared unknown; a real
// kubelet then says that it is ready, and so must these.
func TestANodeThatWasDeclaredUnknownComesBack(t *testing.T) {
	f := newFixture(t)
	nodes := f.client.CoreV1().Nodes()
	status := func(name string) v1.ConditionStatus {
		n, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady {
				return c.Status
			}
		}
		return ""
	}
	for _, name := range []string{"n", "dead"} {
		n, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].Status = v1.ConditionUnknown
		}
		if _, err := nodes.UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.eventually(t, "Ready again", func() (bool, string) { return status("n") == v1.ConditionTrue, string(status("n")) })
	if s := status("dead"); s != v1.ConditionUnknown {
		t.Errorf("a node whose kubelet does not answer became Ready=%s", s)
	}
}

func TestANodeMadeAnewGetsALeaseOfItsOwn(t *testing.T) {
	f := newFixture(t)
	nodes := f.client.CoreV1().Nodes()
	if err := nodes.Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	leases := f.client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	if err := leases.Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "second"}, Status: v1.NodeStatus{Allocatable: list("cpu", "4", "pods", "10")}}
	if _, err := nodes.Create(t.Context(), again, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually(t, "a lease of the second node", func() (bool, string) {
		l, err := leases.Get(t.Context(), "n", metav1.GetOptions{})
		return err == nil && len(l.OwnerReferences) == 1 && l.OwnerReferences[0].UID == "second", fmt.Sprint(l, err)
	})
}

func TestHeartbeatsStayBelow25ASecond(t *testing.T) {
	for nodes, want := range map[int]time.Duration{0: 10 * time.Second, 15: 10 * time.Second, 250: 10 * time.Second, 1000: 40 * time.Second, 5000: 200 * time.Second} {
		if got := HeartbeatEvery(nodes); got != want {
			t.Errorf("%d nodes: every %s, want %s", nodes, got, want)
		}
	}
}
