package sched

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/coretest"
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
