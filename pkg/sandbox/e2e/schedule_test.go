package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sandbox"
	"lj.aliyun.com/kit/pkg/sandbox/demo"
	"lj.aliyun.com/kit/pkg/sandbox/simnode"
	"lj.aliyun.com/kit/pkg/sandbox/statedir"
	"lj.aliyun.com/kit/pkg/sched/schedtest"
)

// builtProgram is the path of a built program of the suite: the one that the
// environment names, or one built for this run.
func builtProgram(t *testing.T, name, env string) string {
	t.Helper()
	if path := os.Getenv(env); path != "" {
		return path
	}
	out := filepath.Join(t.TempDir(), name)
	build := exec.Command("go", "build", "-o", out, "lj.aliyun.com/kit/cmd/"+name)
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, text)
	}
	return out
}

// scheduled is a cluster of its own with the real scheduler.
type scheduled struct {
	*sandbox.Cluster
	client kubernetes.Interface
	mu     sync.Mutex
	last   statedir.Scheduler
}

func startScheduled(t *testing.T) *scheduled {
	t.Helper()
	return startScheduledWith(t, sandbox.Options{})
}

// startScheduledWith adds to these options what all tests need.
func startScheduledWith(t *testing.T, o sandbox.Options) *scheduled {
	t.Helper()
	s := &scheduled{}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	o.Scheduler = builtProgram(t, "ljnode", "LJNODE")
	o.Timing = simnode.Timing{Create: 10 * time.Millisecond, Init: 10 * time.Millisecond, BackOff: 100 * time.Millisecond, MaxBackOff: time.Second}
	o.OnScheduler = func(st statedir.Scheduler) {
		s.mu.Lock()
		s.last = st
		s.mu.Unlock()
	}
	c, err := sandbox.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	if err := c.WaitScheduler(ctx); err != nil {
		t.Fatal(err)
	}
	s.Cluster, s.client = c, kubernetes.NewForConfigOrDie(c.AdminConfig())
	return s
}

// kill ends the scheduler as a crash would; the sandbox starts it again.
func (s *scheduled) kill(t *testing.T) { t.Helper(); s.signal(t, syscall.SIGKILL) }

func (s *scheduled) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	eventually(t, "a scheduler to kill", func() (bool, string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.last.PID == 0 {
			return false, s.last.State
		}
		pid := s.last.PID
		s.last = statedir.Scheduler{}
		return syscall.Kill(pid, sig) == nil, s.last.State
	})
}

func TestTheDemonstrationHolds(t *testing.T) {
	s := startScheduled(t)
	settings, _ := kube.ReadConfig(t.Context(), s.client)
	var out bytes.Buffer
	err := demo.Run(t.Context(), demo.Options{Out: &out, Ljctl: builtProgram(t, "ljctl", "LJCTL"), Kubeconfig: s.AdminKubeconfig(),
		Client: s.client, Namespace: "demo", Config: settings})
	if err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// Random pods of all kinds come and go while the scheduler is killed, on the
// real API server and with kubelets that refuse a card given twice. At the
// end the objects alone are judged.
func TestNothingIsHandedOutTwiceWhileTheSchedulerIsKilled(t *testing.T) {
	s := startScheduled(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	var alive []string
	for i := range 160 {
		p := randomPod(i, rnd)
		if _, err := s.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		alive = append(alive, p.Name)
		if len(alive) > 60 && rnd.IntN(3) == 0 {
			k := rnd.IntN(len(alive))
			if err := s.client.CoreV1().Pods("default").Delete(t.Context(), alive[k], metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			alive = append(alive[:k], alive[k+1:]...)
		}
		if i == 50 || i == 110 {
			s.kill(t)
		}
	}
	s.judged(t, len(alive))
	eventually(t, "the scheduler's state after its restarts", func() (bool, string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.last.State == statedir.SchedulerLeading && s.last.Restarts >= 2, fmt.Sprintf("%+v", s.last)
	})
}

// judged waits until every pod that is left has a node or a refusal, and
// checks what they were given.
func (s *scheduled) judged(t *testing.T, left int) {
	t.Helper()
	var pods []*v1.Pod
	eventually(t, "all pods placed or refused", func() (bool, string) {
		list, err := s.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		pods = pods[:0]
		open := 0
		for i := range list.Items {
			p := &list.Items[i]
			pods = append(pods, p)
			if p.DeletionTimestamp != nil || p.Spec.NodeName == "" && len(p.Status.Conditions) == 0 {
				open++
			}
		}
		return open == 0 && len(pods) == left, fmt.Sprintf("%d of %d pods are open", open, len(pods))
	})
	list, err := s.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*v1.Node
	for i := range list.Items {
		nodes = append(nodes, &list.Items[i])
	}
	for _, w := range schedtest.Verify(nodes, pods, config.Default()) {
		t.Error(w)
	}
	bound := 0
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			bound++
		}
		if p.Status.Phase == v1.PodFailed {
			t.Errorf("%s on %s failed: %s %s", p.Name, p.Spec.NodeName, p.Status.Reason, p.Status.Message)
		}
		for _, c := range p.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				t.Errorf("%s on %s: %s %s", p.Name, p.Spec.NodeName, w.Reason, w.Message)
			}
		}
	}
	if bound < left/2 {
		t.Errorf("%d of %d pods are bound: the scheduler did not keep up", bound, left)
	}
}

// randomPod asks for cards in one of the ways that there are.
func randomPod(i int, rnd *rand.Rand) *v1.Pod {
	spec := cardPod()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%03d", i), Labels: map[string]string{}}, Spec: spec}
	q := func(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }
	limits := v1.ResourceList{}
	switch rnd.IntN(5) {
	case 0:
		limits["nvidia.com/gpu"] = q(1 + rnd.IntN(4))
	case 1:
		limits["aliyun.com/gpu"] = q(1 + rnd.IntN(2))
	case 2:
		limits["aliyun.com/gpu-slice"] = q(mig.AllowedSlices()[rnd.IntN(4)])
		limits["aliyun.com/gpu-memory"] = q(1 + rnd.IntN(8))
	default:
		limits["aliyun.com/gpu-core"] = q(5 + rnd.IntN(90))
		limits["aliyun.com/gpu-memory"] = q(1 + rnd.IntN(30))
		if rnd.IntN(3) == 0 {
			p.Labels["replica"] = "2"
		}
	}
	p.Spec.Containers[0].Resources.Limits = limits
	return p
}
