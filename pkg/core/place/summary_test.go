package place

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/request"
)

func TestSummarySaysWhatAPodGot(t *testing.T) {
	host := func(i int) *coretest.NodeBuilder { return coretest.Hosts()[i].Build("n", cfg) }
	index := map[string]int{}
	for i, h := range coretest.Hosts() {
		index[h.Name] = i
	}
	mib := coretest.Request(cfg, "2", L{"gpu-core": 30, "gpu-memory": 8})
	for name, x := range map[string]struct {
		node *cluster.Node
		req  *request.Request
		want string
	}{
		"one whole card":            {node("n").Cards(8, coretest.A100x80).Obj(), whole(1), "card 0"},
		"cards of unknown place":    {node("n").Cards(8, coretest.A100x80).Obj(), whole(2), "cards 0,1 (place unknown)"},
		"a ring over both sockets":  {host(index["PPU 810E x8"]).Obj(), whole(4), "cards 0,1,6,7 (ICN)"},
		"all cards":                 {host(index["DGX-1 V100"]).Obj(), whole(8), "cards 0-7 (NVLink)"},
		"cards without links":       {coretest.A10x8("n", cfg).Obj(), whole(4), "cards 0-3 (one NUMA node)"},
		"a share":                   {node("n").Cards(1, coretest.A100x80).Obj(), coretest.Request(cfg, "", L{"gpu-core": 30, "gpu-memory": 8}), "card 0: 30 %, 8 GiB"},
		"a share without memory":    {node("n").Cards(1, coretest.A100x80).Obj(), coretest.Request(cfg, "", L{"gpu-core": 30}), "card 0: 30 %"},
		"shares of two cards":       {coretest.A10x8("n", cfg).Obj(), mib, "cards 0,1 (one NUMA node): 30 %, 8 GiB each"},
		"an instance":               {node("n").MIG(1, coretest.A100x40).Obj(), coretest.Request(cfg, "", L{"gpu-slice": 3}), "card 0: 3g.20gb at 4"},
		"instances on two cards":    {node("n").MIG(2, coretest.A100x40).Obj(), coretest.Request(cfg, "2", L{"gpu-slice": 3}), "cards 0,1: 3g.20gb at 4"},
		"two containers":            {coretest.A10x8("n", cfg).Obj(), coretest.Request(cfg, "", L{"gpu": 1}, L{"gpu": 2}), "c0: card 2; c1: cards 0,1 (one NUMA node)"},
		"NICs of the cards' switch": {m890p("n", cfg).Obj(), rdma(4), "cards 0-3 (one socket); NICs mlx5_0,mlx5_1 at switch"},
		"one NIC":                   {m890p("n", cfg).Obj(), rdma(2), "cards 0,1 (one PCIe switch); NIC mlx5_0 at switch"},
		"a NIC out of service":      {m890p("n", cfg).Down(0).Obj(), rdma(8), "cards 0-7 (across sockets); NICs mlx5_1,mlx5_2,mlx5_3 at switch; cards 0,1: NIC mlx5_1 at socket, mlx5_0 at its switch has no port in service"},
		"a switch without NIC":      {coretest.A10x8("n", cfg).NICAt("", 1, 1).Obj(), rdma(1), "card 4; card 4: NIC mlx5_0 at numa, no PCIe switch is known above it"},
		"a card of unknown place":   {coretest.M890PUnknown("n", cfg).Obj(), rdma(8), "cards 0-7 (place unknown); NICs mlx5_0,mlx5_1,mlx5_2 at switch; card 6: NIC mlx5_2 at socket, no NIC of the RDMA network at its switch 0000:03:00.0; card 7: NIC mlx5_3 at unknown, no PCIe switch is known above it"},
		"no NIC that can be named":  {coretest.A10x8("n", cfg).NIC("mlx5_0").Obj(), rdma(1), "card 0; no NIC in service whose place is known"},
		"a pod that asks no card":   {m890p("n", cfg).Obj(), &request.Request{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, why := NewView(x.node, cfg).Fit(x.req)
			if why != nil {
				t.Fatal(why)
			}
			if got := o.Summary(x.node.Inventory); got != x.want {
				t.Errorf("got  %q\nwant %q", got, x.want)
			}
		})
	}
}

func TestSummaryIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawHost(t, 8)
		o, _ := NewView(n, cfg).Fit(drawAsk(t, n))
		if o == nil {
			return
		}
		extra := rapid.IntRange(0, 60).Draw(t, "containers")
		for range extra {
			name := rapid.StringMatching(`[a-z]{1,63}`).Draw(t, "name")
			o.Containers[name] = []device.Grant{{Card: rapid.StringMatching(`GPU-[0-9a-fé]{1,60}`).Draw(t, "card"), Whole: true}}
		}
		inv := n.Inventory
		if rapid.Bool().Draw(t, "gone") {
			inv = &device.Inventory{} // the cards are no longer there
		}
		got := o.Summary(inv)
		if len(got) > MaxSummary || !utf8.ValidString(got) || got == "" {
			t.Fatalf("%d bytes: %q", len(got), got)
		}
	})
}
