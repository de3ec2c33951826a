package place

import (
	"testing"

	"lj.aliyun.com/kit/pkg/core/coretest"
)

func BenchmarkSets(b *testing.B) {
	for _, h := range coretest.Hosts() {
		n := h.Build("n", cfg).Obj()
		most := int64(len(n.Inventory.Cards))
		for name, r := range map[string]L{
			"1":      {"gpu": 1},
			"half":   {"gpu": most / 2},
			"share2": {"gpu-core": 30},
			"rdma":   {"gpu": most / 2, "rdma": 1},
		} {
			if r["rdma"] > 0 && len(n.Inventory.NICs) == 0 {
				continue
			}
			req := coretest.Request(cfg, "", r)
			if name == "share2" {
				req = coretest.Request(cfg, "2", r)
			}
			b.Run(h.Name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					NewView(n, cfg).Fit(req) // as for a node that has just changed
				}
			})
		}
	}
}
