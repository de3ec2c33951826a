package offline

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

// halfFull is nodes of 8 cards, 16 on a leaf and 128 in a network-pod, with a
// pod on each of four of a node's cards.
func halfFull(tb testing.TB, pods int) *kube.Snapshot {
	s := &kube.Snapshot{Nodes: network(tb, pods, 8, 16, 8)}
	for _, n := range s.Nodes {
		for i := range 4 {
			p := ask(fmt.Sprintf("old-%s-%d", n.Name, i), "1", gpus(1))
			s.Pods = append(s.Pods, bind(tb, p, n.Name, &device.Allocation{UID: string(p.UID), Node: n.Name,
				Containers: map[string][]device.Grant{"app": {{Card: fmt.Sprintf("GPU-%s-%d", n.Name, i), Whole: true}}}}))
		}
	}
	return s
}

// BenchmarkNew is the engine on 5,120 nodes and 20,480 pods.
func BenchmarkNew(b *testing.B) {
	s := halfFull(b, 40)
	b.ReportAllocs()
	for b.Loop() {
		e, err := New(context.Background(), s, cfg)
		if err != nil {
			b.Fatal(err)
		}
		e.Close()
	}
}

// BenchmarkGroups assumes groups on 5,120 nodes, one after the other.
func BenchmarkGroups(b *testing.B) {
	s := halfFull(b, 40)
	for _, c := range []struct {
		members int
		cards   int64
	}{{16, 4}, {16, 1}, {512, 1}} {
		b.Run(fmt.Sprintf("members=%d/cards=%d", c.members, c.cards), func(b *testing.B) {
			e := engine(b, s)
			ctx := context.Background()
			assumed := 0
			assume := func(pods []*v1.Pod) {
				r, err := e.AssumeGroup(ctx, pods)
				if err != nil || r.Placed != len(pods) {
					b.Fatal(r.Why, err)
				}
				assumed++
			}
			assume(group("first", c.members, c.members, gpus(c.cards))) // reads the inventories
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if assumed > 30 { // the cluster stays half full
					b.StopTimer()
					for ; assumed > 0; assumed-- {
						if err := e.Forget(ctx); err != nil {
							b.Fatal(err)
						}
					}
					b.StartTimer()
				}
				i++
				assume(group(fmt.Sprintf("g%d", i), c.members, c.members, gpus(c.cards)))
			}
			b.ReportMetric(float64(b.N*c.members)/b.Elapsed().Seconds(), "pods/s")
		})
	}
}
