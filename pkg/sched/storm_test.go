package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/place"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched/schedtest"
)

// randomNode is a node of any kind; pick(n) is a number below n.
func randomNode(name string, pick func(int) int) *cluster.Node {
	models := []string{coretest.A100x40, coretest.A100x80, coretest.H800, coretest.H20, coretest.T4, coretest.PPU810E, coretest.MI300X}
	b := coretest.Node(name, cfg).Cards(1+pick(4), models[pick(len(models))])
	if pick(2) == 0 {
		b = b.MIG(1+pick(3), models[pick(3)])
	}
	if pick(5) == 0 {
		b = b.Sick(0, "xid-79")
	}
	return b.Obj()
}

// randomPod asks for anything, legal or not.
func randomPod(name string, pick func(int) int) *v1.Pod {
	one := func() limits {
		switch pick(8) {
		case 0:
			return limits{"nvidia": int64(1 + pick(3))}
		case 1:
			return limits{"gpu": int64(1 + pick(2))}
		case 2, 3:
			return limits{"gpu-slice": []int64{1, 2, 3, 4, 5, 7}[pick(6)]}
		case 4:
			return limits{"gpu-memory": int64(1 + pick(40))}
		case 5:
			return limits{"gpu-core": int64(1 + pick(110))}
		case 6:
			return limits{"cpu": 1}
		}
		return limits{"gpu-core": int64(10 * (1 + pick(10))), "gpu-memory": int64(1 + pick(40))}
	}
	p := podObj(name, one())
	for range pick(3) {
		p.Spec.Containers = append(p.Spec.Containers, container(cfg, fmt.Sprintf("more%d", len(p.Spec.Containers)), one()))
	}
	if pick(4) == 0 {
		p.Spec.InitContainers = append(p.Spec.InitContainers, container(cfg, "init", one()))
	}
	if pick(6) == 0 {
		p = replica(p, fmt.Sprint(1+pick(3)))
	}
	if pick(4) == 0 {
		p = priority(p, int32(pick(3)*100))
	}
	return p
}

// storm runs pods against nodes, ends some on the way, and verifies what is
// left, also after a restart.
func storm(t testing.TB, check func(...any), nodes, pods int, quiet time.Duration, pick func(int) int) {
	var objs []runtime.Object
	var all []*v1.Node
	for i := range nodes {
		n := nodeObj(t, randomNode(fmt.Sprintf("n%02d", i), pick))
		all = append(all, n)
		objs = append(objs, n)
	}
	r := newRig(t, NewState(cfg), objs...)
	failing := pick(20) + 5
	count := 0
	r.onBind(func(b *v1.Binding) error { // some bindings fail, some of them after they were written
		if count++; count%failing == 0 {
			if count%(2*failing) == 0 {
				_ = commit(r.client, b)
			}
			return errReset
		}
		return nil
	})
	for i := range pods {
		r.add(randomPod(fmt.Sprintf("p%03d", i), pick))
		if i%7 == 6 {
			r.deleteBound(fmt.Sprintf("p%03d", pick(i)))
		}
		if i == pods/2 {
			r.restart(NewState(cfg))
		}
	}
	r.settle(quiet)
	list := r.pods()
	bound := 0
	for _, p := range list {
		if p.Spec.NodeName != "" {
			bound++
		}
	}
	if wrong := schedtest.Verify(all, list, cfg); len(wrong) > 0 {
		check(wrong)
	}
	if quiet > time.Second { // long enough for every back-off
		if left := overlooked(all, list); len(left) > 0 {
			check("pods wait although they fit: ", left)
		}
	}
	t.Logf("%d nodes, %d pods, %d bound", nodes, len(list), bound)
	r.halt()
}

var errReset = fmt.Errorf("read tcp: connection reset by peer")

func (r *rig) pods() []*v1.Pod {
	l, err := r.client.CoreV1().Pods("").List(r.ctx, metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	var out []*v1.Pod
	for i := range l.Items {
		out = append(out, &l.Items[i])
	}
	return out
}

func (r *rig) deleteBound(name string) {
	if p, err := r.client.CoreV1().Pods("default").Get(r.ctx, name, metav1.GetOptions{}); err == nil && p.Spec.NodeName != "" {
		_ = r.client.CoreV1().Pods("default").Delete(r.ctx, name, metav1.DeleteOptions{})
	}
}

// overlooked lists waiting pods that the core would place now.
func overlooked(nodes []*v1.Node, pods []*v1.Pod) []string {
	var out []string
	for _, p := range pods {
		r, bad := kube.RequestOf(p, cfg)
		if p.Spec.NodeName != "" || len(bad) > 0 || r.Empty() {
			continue
		}
		for _, n := range nodes {
			core := kube.NodeOf(n, cfg)
			for _, o := range pods {
				if o.Spec.NodeName == n.Name {
					if h := kube.HoldOf(o, cfg); h != nil {
						core.Holds = append(core.Holds, *h)
					}
				}
			}
			if place.NewView(core, cfg).Check(r) == nil {
				out = append(out, p.Name+" on "+n.Name)
				break
			}
		}
	}
	return out
}

// settle waits until nothing has been bound for a while.
func (r *rig) settle(long time.Duration) {
	last, quiet := -1, time.Now()
	for time.Since(quiet) < long {
		n := 0
		for _, p := range r.pods() {
			if p.Spec.NodeName != "" {
				n++
			}
		}
		if n != last {
			last, quiet = n, time.Now()
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestStormHandsNothingOutTwice(t *testing.T) {
	rnd := rand.New(rand.NewPCG(20, 300))
	storm(t, t.Fatal, 20, 300, 2500*time.Millisecond, rnd.IntN)
}

func TestSmallStorms(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes")
	}
	rapid.Check(t, func(rt *rapid.T) {
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "pick") }
		storm(t, func(a ...any) { rt.Fatal(a...) }, 1+pick(4), 5+pick(25), 300*time.Millisecond, pick)
	})
}
