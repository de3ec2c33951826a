package place

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/reason"
)

func TestCensusOfANode(t *testing.T) {
	const gib = 1024
	n := node("n").Cards(6, coretest.A100x80).MIG(2, coretest.A100x80).Cards(1, coretest.MI300X).
		Whole(1, "w").Share(2, "a", 30, 80*gib).Share(3, "b", 100, 20*gib).Share(4, "c", 50, 10*gib).Sick(5, "xid-79").
		Instance(6, "d", 0, 4).Instance(7, "e", 1, 1).Instance(7, "f", 3, 1).Instance(7, "g", 5, 1).Instance(7, "h", 6, 1).Obj()
	want := Census{
		Unhealthy: 1, Free: 2, Held: 1, Shared: 3, Cut: 2,
		FreeCore: 100 + 70 + 0 + 50, FreeMiB: (80 + 0 + 60 + 70) * gib,
		SplitCore: 70 + 0 + 50, SplitMiB: (0 + 60 + 70) * gib,
		StuckCore: 70, StuckMiB: 60 * gib,
		FreeSlices: 4 + 4, StuckSlices: 1, // slice 7 has room in larger instances only
		Instances: map[string]int64{"1g.10gb": 3 + 3, "1g.20gb": 2, "2g.20gb": 1, "3g.40gb": 1, "4g.40gb": 0, "7g.80gb": 0},
	}
	if diff := cmp.Diff(want, NewView(n, cfg).Census()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	n.Gate = &reason.Reason{Code: "enable-label-missing"}
	if diff := cmp.Diff(Census{Closed: 9}, NewView(n, cfg).Census()); diff != "" {
		t.Errorf("a node that takes no pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Census{}, NewView(&cluster.Node{Name: "m"}, cfg).Census()); diff != "" {
		t.Errorf("a node without cards (-want +got):\n%s", diff)
	}
}

func TestCensusAgreesWithCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t, 6)
		for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
			if o, _ := NewView(n, cfg).Fit(drawRequest(t, fmt.Sprint("p", i), cfg)); o != nil {
				n.Holds = append(n.Holds, cluster.Hold{UID: fmt.Sprint("p", i), Cards: o.Uses})
			}
		}
		v := NewView(n, cfg)
		c := v.Census()
		gpus := int64(len(n.Inventory.Cards))
		if c.Cards() != gpus {
			t.Fatalf("%d cards counted of %d: %+v", c.Cards(), gpus, c)
		}
		const most = 1 << 20
		for name, x := range map[string]struct {
			l    L
			want int64
		}{
			"free cards":   {L{"gpu": 1}, c.Free},
			"free compute": {L{"gpu-core": 1}, c.FreeCore},
			"free memory":  {L{"gpu-memory": 1}, c.FreeMiB / 1024},
		} {
			if got := int64(v.Capacity(coretest.Request(cfg, "", x.l), most)); got != x.want {
				t.Fatalf("%s: counted %d, capacity %d: %+v", name, x.want, got, c)
			}
		}
		if c.StuckCore > c.SplitCore || c.SplitCore > c.FreeCore || c.StuckMiB > c.SplitMiB || c.SplitMiB > c.FreeMiB || c.StuckSlices > c.FreeSlices {
			t.Fatalf("a part is larger than the whole: %+v", c)
		}
		var twice Census
		twice.Add(c)
		twice.Add(c)
		if twice.Cards() != 2*gpus || twice.FreeMiB != 2*c.FreeMiB || twice.StuckSlices != 2*c.StuckSlices {
			t.Fatalf("counted twice: %+v, once: %+v", twice, c)
		}
		for name, n := range c.Instances {
			if twice.Instances[name] != 2*n {
				t.Fatalf("%s: %d once and %d twice", name, n, twice.Instances[name])
			}
		}
	})
}

func BenchmarkCensus(b *testing.B) {
	for name, n := range map[string]*cluster.Node{"shares": busyNode(), "slices": node("m").MIG(8, coretest.A100x80).Obj()} {
		b.Run(name, func(b *testing.B) {
			v := NewView(n, cfg)
			b.ReportAllocs()
			for b.Loop() {
				v.Census()
			}
		})
	}
}
