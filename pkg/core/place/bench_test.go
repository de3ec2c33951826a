package place

import (
	"fmt"
	"testing"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/request"
)

// busyNode is a node of eight cards with shares on five of them.
func busyNode() *cluster.Node {
	b := node("n").Cards(8, coretest.A100x80)
	for i := range 5 {
		b.Share(i, fmt.Sprintf("p%d", i), 40, 20*1024)
	}
	return b.Obj()
}

func BenchmarkPlace(b *testing.B) {
	for name, r := range map[string]*request.Request{
		"whole3":    coretest.Request(cfg, "", L{"nvidia": 3}),
		"share":     coretest.Request(cfg, "", L{"gpu-core": 30, "gpu-memory": 8}),
		"refused":   coretest.Request(cfg, "", L{"nvidia": 8}),
		"twoShares": coretest.Request(cfg, "", L{"gpu-core": 30}, L{"gpu-core": 60}),
	} {
		n := busyNode()
		b.Run("check/"+name, func(b *testing.B) {
			v := NewView(n, cfg)
			b.ReportAllocs()
			for b.Loop() {
				v.Check(r)
			}
		})
		b.Run("fit/"+name, func(b *testing.B) {
			v := NewView(n, cfg)
			b.ReportAllocs()
			for b.Loop() {
				v.Fit(r)
			}
		})
	}
	b.Run("view", func(b *testing.B) {
		n := busyNode()
		b.ReportAllocs()
		for b.Loop() {
			NewView(n, cfg)
		}
	})
	m := node("m").MIG(8, coretest.A100x80).Instance(0, "a", 4, 4).Obj()
	slice := coretest.Request(cfg, "", L{"gpu-slice": 2, "gpu-memory": 4})
	b.Run("fit/slice", func(b *testing.B) {
		v := NewView(m, cfg)
		b.ReportAllocs()
		for b.Loop() {
			v.Fit(slice)
		}
	})
}
