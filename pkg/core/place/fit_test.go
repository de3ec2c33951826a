package place

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

type L = coretest.Limits

var cfg = config.Default()

func node(name string) *coretest.NodeBuilder { return coretest.Node(name, cfg) }

func codes(rs []reason.Reason) []reason.Code {
	var out []reason.Code
	for _, r := range rs {
		out = append(out, r.Code)
	}
	return out
}

func TestReasonsSayWhatIsInTheWay(t *testing.T) {
	const gib = 1024
	tests := map[string]struct {
		node *cluster.Node
		req  *request.Request
		want []reason.Code
	}{
		"a whole card on an idle node fits": {
			node("n").Cards(8, coretest.A100x80).Obj(), coretest.Request(cfg, "", L{"nvidia": 8}), nil},
		"more whole cards than the node has never fit": {
			node("n").Cards(8, coretest.A100x80).Obj(), coretest.Request(cfg, "", L{"gpu": 9}), []reason.Code{"gpus-above-node"}},
		"whole cards in use are waited for": {
			node("n").Cards(2, coretest.A100x80).Whole(0, "a").Obj(), coretest.Request(cfg, "", L{"gpu": 2}), []reason.Code{"gpus-busy"}},
		"a nibbled card is not whole": {
			node("n").Cards(1, coretest.A100x80).Share(0, "a", 5, gib).Obj(), coretest.Request(cfg, "", L{"nvidia": 1}), []reason.Code{"no-whole-gpu-free"}},
		"a share without amounts nibbles too": {
			node("n").Cards(1, coretest.A100x80).Share(0, "a", 0, 0).Obj(), coretest.Request(cfg, "", L{"nvidia": 1}), []reason.Code{"no-whole-gpu-free"}},
		"memory free in sum but not on one card": {
			node("n").Cards(4, coretest.A100x40).Share(0, "a", 0, 34*gib).Share(1, "b", 0, 34*gib).Share(2, "c", 0, 34*gib).Share(3, "d", 0, 34*gib).Obj(),
			coretest.Request(cfg, "", L{"gpu-core": 20, "gpu-memory": 10}), []reason.Code{"fragmented-memory"}},
		"memory on one card, compute on the other": {
			node("n").Cards(2, coretest.A100x80).Share(0, "a", 20, 76*gib).Share(1, "b", 90, 20*gib).Obj(),
			coretest.Request(cfg, "", L{"gpu-core": 50, "gpu-memory": 16}), []reason.Code{"no-card-has-both"}},
		"a share larger than any card": {
			node("n").Cards(2, coretest.H800).Obj(), coretest.Request(cfg, "", L{"gpu-memory": 80}), []reason.Code{"memory-above-largest-gpu"}},
		"a share larger than any card, also those that are sick or cut": {
			node("n").Cards(2, coretest.A100x80).MIG(1, coretest.A100x80).Cards(1, coretest.A100x80).Sick(3, "xid-79").Obj(),
			coretest.Request(cfg, "", L{"gpu-memory": 400}), []reason.Code{"memory-above-largest-gpu"}},
		"the cards large enough are cut": {
			node("n").Cards(2, coretest.T4).MIG(1, coretest.A100x80).Obj(),
			coretest.Request(cfg, "", L{"gpu-memory": 40}), []reason.Code{"gpus-in-mig-mode"}},
		"a share as large as whole units of the card": {
			node("n").Cards(2, coretest.H800).Obj(), coretest.Request(cfg, "", L{"gpu-memory": 79}), nil},
		"replica needs different cards": {
			node("n").Cards(1, coretest.A100x80).Obj(), coretest.Request(cfg, "2", L{"gpu-core": 20, "gpu-memory": 4}), []reason.Code{"replica-above-gpus-per-node"}},
		"replica waits when one of the cards is full": {
			node("n").Cards(2, coretest.A100x80).Share(1, "a", 0, 78*gib).Obj(), coretest.Request(cfg, "2", L{"gpu-core": 20, "gpu-memory": 4}), []reason.Code{"replica-cards-short"}},
		"shares are not offered on AMD": {
			node("n").Cards(4, coretest.MI300X).Obj(), coretest.Request(cfg, "", L{"gpu-core": 50}), []reason.Code{"amd-no-share"}},
		"a whole AMD card by the neutral name": {
			node("n").Cards(4, coretest.MI300X).Obj(), coretest.Request(cfg, "", L{"gpu": 1}), nil},
		"nvidia.com/gpu is NVIDIA only": {
			node("n").Cards(4, coretest.PPU810E).Obj(), coretest.Request(cfg, "", L{"nvidia": 1}), []reason.Code{"vendor-mismatch"}},
		"the last healthy card is not enough": {
			node("n").Cards(8, coretest.A100x80).Sick(3, "xid-79").Obj(), coretest.Request(cfg, "", L{"gpu": 8}), []reason.Code{"unhealthy-gpu"}},
		"seven of eight healthy serve seven": {
			node("n").Cards(8, coretest.A100x80).Sick(3, "xid-79").Obj(), coretest.Request(cfg, "", L{"gpu": 7}), nil},
		"all cards unhealthy": {
			node("n").Cards(2, coretest.T4).Sick(0, "lost").Sick(1, "lost").Obj(), coretest.Request(cfg, "", L{"gpu": 1}), []reason.Code{"all-gpus-unhealthy"}},
		"whole card on a node cut by MIG": {
			node("n").MIG(8, coretest.A100x80).Obj(), coretest.Request(cfg, "", L{"nvidia": 1}), []reason.Code{"gpus-in-mig-mode"}},
		"a share when the other card is in MIG mode": {
			node("n").MIG(1, coretest.A100x80).Cards(1, coretest.A100x80).Share(1, "a", 100, 70*gib).Obj(),
			coretest.Request(cfg, "", L{"gpu-core": 50, "gpu-memory": 8}), []reason.Code{"gpus-busy", "gpu-in-mig-mode"}},
		"a slice when no card has the mode on": {
			node("n").Cards(8, coretest.A100x80).Obj(), coretest.Request(cfg, "", L{"gpu-slice": 3, "gpu-memory": 4}), []reason.Code{"mig-not-enabled"}},
		"a slice on a model that is not on the list": {
			node("n").MIG(8, coretest.H20).Obj(), coretest.Request(cfg, "", L{"gpu-slice": 3}), []reason.Code{"mig-model-not-supported"}},
		"a slice where one of the cards of a wrong model is sick": {
			node("n").Cards(2, coretest.T4).Sick(1, "xid-79").Obj(), coretest.Request(cfg, "", L{"gpu-slice": 3}), []reason.Code{"mig-model-not-supported"}},
		"a slice on an idle MIG card": {
			node("n").MIG(1, coretest.H800).Obj(), coretest.Request(cfg, "", L{"gpu-slice": 3, "gpu-memory": 4}), nil},
		"memory is a floor on the profile": {
			node("n").MIG(1, coretest.A100x80).Obj(), coretest.Request(cfg, "", L{"gpu-slice": 3, "gpu-memory": 40}), []reason.Code{"slice-memory-too-large"}},
		"slice 1 with more memory takes the double profile": {
			node("n").MIG(1, coretest.A100x80).Obj(), coretest.Request(cfg, "", L{"gpu-slice": 1, "gpu-memory": 15}), nil},
		"free slices at no legal place": {
			node("n").MIG(1, coretest.A100x80).Instance(0, "a", 1, 1).Instance(0, "b", 5, 1).Obj(),
			coretest.Request(cfg, "", L{"gpu-slice": 3}), []reason.Code{"mig-no-placement"}},
		"two shares of sixty on one card": {
			node("n").Cards(1, coretest.A100x80).Obj(), coretest.Request(cfg, "", L{"gpu-core": 60}, L{"gpu-core": 60}), []reason.Code{"pod-fits-piecewise"}},
		"two shares of sixty on two cards": {
			node("n").Cards(2, coretest.A100x80).Obj(), coretest.Request(cfg, "", L{"gpu-core": 60}, L{"gpu-core": 60}), nil},
		"RDMA on a node without NIC": {
			node("n").Cards(2, coretest.A100x80).Obj(), coretest.Request(cfg, "", L{"gpu": 1, "rdma": 1}), []reason.Code{"no-rdma-nic"}},
		"RDMA on a node with one": {
			node("n").Cards(2, coretest.A100x80).NIC("mlx5_0").Obj(), coretest.Request(cfg, "", L{"gpu": 1, "rdma": 1}), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := NewView(tt.node, cfg)
			if diff := cmp.Diff(tt.want, codes(v.Check(tt.req))); diff != "" {
				t.Errorf("Check (-want +got):\n%s", diff)
			}
			offer, why := v.Fit(tt.req)
			if diff := cmp.Diff(tt.want, codes(why)); diff != "" {
				t.Errorf("Fit (-want +got):\n%s", diff)
			}
			if (offer == nil) != (len(why) > 0) {
				t.Errorf("offer %v with reasons %v", offer, why)
			}
		})
	}
}

func TestNodesThatTakeNothingSayWhy(t *testing.T) {
	req := coretest.Request(cfg, "", L{"gpu-core": 50, "gpu-memory": 4})
	tests := map[string]struct {
		change func(n *cluster.Node)
		want   reason.Code
	}{
		"not enabled":            {func(n *cluster.Node) { n.Gate = &reason.Reason{Code: "enable-label-missing"} }, "enable-label-missing"},
		"inventory unreadable":   {func(n *cluster.Node) { n.Inventory, n.Unread = nil, &reason.Reason{Code: "inventory-unreadable"} }, "inventory-unreadable"},
		"no inventory":           {func(n *cluster.Node) { n.Inventory = nil }, "no-gpu-on-node"},
		"other unit":             {func(n *cluster.Node) { n.Inventory.Unit = config.MiB }, "memory-unit-mismatch"},
		"key absent":             {func(n *cluster.Node) { delete(n.Allocatable, "aliyun.com/gpu-core") }, "resource-not-reported"},
		"key zero is not absent": {func(n *cluster.Node) { n.Allocatable["aliyun.com/gpu-core"] = 0 }, "agent-link-lost"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := node("n").Cards(2, coretest.A100x80).Obj()
			tt.change(n)
			if got := NewView(n, cfg).Check(req); len(got) != 1 || got[0].Code != tt.want {
				t.Errorf("got %v, want %s", got, tt.want)
			}
		})
	}
}

func TestUnplacedPodsHoldCards(t *testing.T) {
	n := node("n").Cards(2, coretest.A100x80).Obj()
	n.Holds = append(n.Holds, cluster.Hold{UID: "x", Pod: "default/x", Unplaced: coretest.Request(cfg, "", L{"nvidia": 1}), Why: "no allocation"})
	if got := NewView(n, cfg).Check(coretest.Request(cfg, "", L{"nvidia": 2})); len(got) == 0 {
		t.Error("a pod without allocation held nothing")
	}
	if got := NewView(n, cfg).Check(coretest.Request(cfg, "", L{"nvidia": 1})); got != nil {
		t.Errorf("one card is free, got %v", got)
	}
	n.Holds = append(n.Holds, cluster.Hold{UID: "y", Pod: "default/y", Unplaced: coretest.Request(cfg, "", L{"nvidia": 4})})
	if got := NewView(n, cfg).Check(coretest.Request(cfg, "", L{"nvidia": 1})); len(got) == 0 {
		t.Error("a pod that asks more than there is must still hold all there is")
	}
}

func TestChoosesCardsByPolicy(t *testing.T) {
	n := node("n").Cards(3, coretest.A100x80).Share(1, "a", 30, 1024).Obj()
	share := coretest.Request(cfg, "", L{"gpu-core": 20, "gpu-memory": 4})
	spread := cfg
	spread.CardPolicy = config.Spread
	if o, _ := NewView(n, cfg).Fit(share); o.Containers["c0"][0].Card != coretest.UUID("n", 1) {
		t.Errorf("binpack took %v, want the shared card", o.Containers)
	}
	if o, _ := NewView(n, spread).Fit(share); o.Containers["c0"][0].Card != coretest.UUID("n", 0) {
		t.Errorf("spread took %v, want an untouched card", o.Containers)
	}
	if o, _ := NewView(n, cfg).Fit(coretest.Request(cfg, "", L{"nvidia": 2})); len(o.Containers["c0"]) != 2 ||
		o.Containers["c0"][0].Card != coretest.UUID("n", 0) || o.Containers["c0"][1].Card != coretest.UUID("n", 2) {
		t.Errorf("whole cards: %v", o.Containers)
	}
}

func TestMIGKeepsTheCardOpen(t *testing.T) {
	n := node("n").MIG(1, coretest.A100x80).Obj()
	o, why := NewView(n, cfg).Fit(coretest.Request(cfg, "", L{"gpu-slice": 3, "gpu-memory": 4}))
	if why != nil {
		t.Fatal(why)
	}
	if g := o.Containers["c0"][0]; g.MIG != "3g.40gb" || *g.Start != 4 || g.Size != 4 {
		t.Errorf("got %s at %d; a 3g belongs at 4, where a 4g can never start", g.MIG, *g.Start)
	}
}

func TestInitContainersReuseTheCardsOfTheApps(t *testing.T) {
	conv := coretest.Container(cfg, "conv", request.Init, L{"nvidia": 4})
	side := coretest.Container(cfg, "side", request.Sidecar, L{"gpu-core": 10})
	app := coretest.Container(cfg, "app", request.App, L{"nvidia": 1})
	tests := map[string]struct {
		containers []request.Container
		want       int
	}{
		"a sidecar after the init container may use one of its cards": {[]request.Container{conv, side, app}, 4},
		"a sidecar before it runs beside it":                          {[]request.Container{side, conv, app}, 5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, bad := request.Parse(request.Pod{Namespace: "default", Name: "p", UID: "p", Containers: tt.containers}, cfg)
			if bad != nil {
				t.Fatal(bad)
			}
			if r.Cards() != tt.want {
				t.Errorf("the request says %d cards, want %d", r.Cards(), tt.want)
			}
			o, why := NewView(node("n").Cards(8, coretest.A100x80).Obj(), cfg).Fit(r)
			if why != nil {
				t.Fatal(why)
			}
			if len(o.Uses) != tt.want {
				t.Errorf("holds %d cards, want %d: %v", len(o.Uses), tt.want, o.Containers)
			}
			if got := NewView(node("m").Cards(tt.want-1, coretest.A100x80).Obj(), cfg).Check(r); len(got) == 0 {
				t.Errorf("a peak of %d cards fitted on %d", tt.want, tt.want-1)
			}
		})
	}
}
