package metrics

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
)

// BenchmarkCount is one scrape of 5,000 nodes with 40,000 pods: the first,
// one after nothing has changed, and one after a pod has on 200 nodes.
func BenchmarkCount(b *testing.B) {
	r := newRig()
	for i := range 5000 {
		name := fmt.Sprintf("n%04d", i)
		r.addNode(b, coretest.HGXH800(name, cfg).Obj())
		for k := range 8 {
			r.addPod(b, name, fmt.Sprintf("p-%d-%d", i, k), config.NvidiaGPU, 1, whole(name, k))
		}
	}
	count := func(b *testing.B, f *Fleet) {
		r.clock.Step(fresh)
		if _, err := f.Count(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			count(b, r.fleet())
		}
	})
	f := r.fleet()
	count(b, f)
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			count(b, f)
		}
	})
	b.Run("200 changed", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			for i := range 200 {
				o, _, _ := r.pods.GetByKey(fmt.Sprintf("team/p-%d-3", i*25))
				_ = r.pods.Update(o.(*v1.Pod).DeepCopy())
			}
			b.StartTimer()
			count(b, f)
		}
	})
}
