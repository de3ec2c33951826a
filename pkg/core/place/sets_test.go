package place

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/core/topo"
)

// m890p has a NIC on each switch.
func m890p(node string, c config.Config) *coretest.NodeBuilder { return coretest.M890P(node, c, 4) }

// taken is the indices of the cards of an offer, by node order.
func taken(n *cluster.Node, o *Offer) []int {
	var out []int
	for i := range n.Inventory.Cards {
		for _, u := range o.Uses {
			if u.Card == n.Inventory.Cards[i].UUID {
				out = append(out, n.Inventory.Cards[i].Index)
			}
		}
	}
	slices.Sort(out)
	return out
}

func holding(b *coretest.NodeBuilder, cards ...int) *cluster.Node {
	for _, c := range cards {
		b.Whole(c, "other")
	}
	return b.Obj()
}

func TestCardsOfOnePodAreNearEachOther(t *testing.T) {
	type build = func(string, config.Config) *coretest.NodeBuilder
	tests := map[string]struct {
		host build
		held []int
		req  *request.Request
		want []int
	}{
		"810E: two links, and the better quad stays whole":   {coretest.PPU810Ex8, nil, whole(2), []int{2, 3}},
		"810E: a quad across the sockets, not cards 0 to 3":  {coretest.PPU810Ex8, nil, whole(4), []int{0, 1, 6, 7}},
		"810E: the other quad next":                          {coretest.PPU810Ex8, []int{0, 1, 6, 7}, whole(4), []int{2, 3, 4, 5}},
		"810E: the second pair completes the first quad":     {coretest.PPU810Ex8, []int{0, 1}, whole(2), []int{6, 7}},
		"810E: a single card comes from the broken quad":     {coretest.PPU810Ex8, []int{0, 1, 6}, whole(1), []int{7}},
		"810E: three cards leave a quad whole":               {coretest.PPU810Ex8, []int{6}, whole(3), []int{0, 1, 7}},
		"810E: five cards leave the best three":              {coretest.PPU810Ex8, nil, whole(5), []int{0, 2, 3, 4, 5}},
		"810E: six cards are the lowest that do":             {coretest.PPU810Ex8, nil, whole(6), []int{0, 1, 2, 3, 4, 5}},
		"810E: all eight":                                    {coretest.PPU810Ex8, nil, whole(8), []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"810E: shares of two cards":                          {coretest.PPU810Ex8, []int{0}, shares("2"), []int{6, 7}},
		"810E of 16 cards: eight of one group":               {coretest.PPU810Ex16, nil, whole(8), []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"810E of 16 cards: the group that is whole":          {coretest.PPU810Ex16, []int{3}, whole(8), []int{8, 9, 10, 11, 12, 13, 14, 15}},
		"810E of 16 cards: a quad from the broken group":     {coretest.PPU810Ex16, []int{3}, whole(4), []int{0, 1, 6, 7}},
		"V100: a double link":                                {coretest.DGX1, nil, whole(2), []int{2, 3}},
		"V100: a quad of links":                              {coretest.DGX1, nil, whole(4), []int{0, 1, 2, 3}},
		"V100: the quad that is whole":                       {coretest.DGX1, []int{2}, whole(4), []int{4, 5, 6, 7}},
		"V100: of four double links the one of one switch":   {coretest.DGX1, []int{0, 2, 3}, whole(2), []int{6, 7}},
		"V100: a single card spares the whole quad":          {coretest.DGX1, []int{0}, whole(1), []int{3}},
		"DGX-2: links are equal, so one socket":              {coretest.DGX2, []int{1}, whole(8), []int{8, 9, 10, 11, 12, 13, 14, 15}},
		"DGX A100: links are equal, so one switch":           {coretest.DGXA100, []int{1}, whole(2), []int{2, 3}},
		"DGX A100: a single card beside a busy one":          {coretest.DGXA100, []int{1}, whole(1), []int{0}},
		"DGX A100: a quad on one socket":                     {coretest.DGXA100, []int{0}, whole(4), []int{4, 5, 6, 7}},
		"HGX H800: a pair on the broken socket":              {coretest.HGXH800, []int{0, 1}, whole(2), []int{2, 3}},
		"A10: one socket":                                    {coretest.A10x8, []int{0, 1}, whole(4), []int{4, 5, 6, 7}},
		"A10: a single card from the broken socket":          {coretest.A10x8, []int{5}, whole(1), []int{4}},
		"A10: what is left, even across sockets":             {coretest.A10x8, []int{0, 1, 2, 4, 5, 6}, whole(2), []int{3, 7}},
		"M890P: one switch":                                  {m890p, []int{0}, whole(2), []int{2, 3}},
		"M890P: one socket before two":                       {m890p, []int{0, 2}, whole(4), []int{4, 5, 6, 7}},
		"M890P: an unknown card is nobody's neighbour":       {coretest.M890PUnknown, []int{0, 2, 4}, whole(2), []int{1, 3}},
		"shares of two A10 are near before they are packed":  {coretest.A10x8, []int{0}, shares("2"), []int{1, 2}},
		"shares of one card of an A10 host":                  {coretest.A10x8, []int{0}, shares("1"), []int{1}},
		"two containers: the first decides, the second fits": {coretest.DGX1, []int{0, 2}, coretest.Request(cfg, "", L{"gpu": 4}, L{"gpu": 2}), []int{1, 3, 4, 5, 6, 7}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := holding(tt.host("n", cfg), tt.held...)
			o, why := NewView(n, cfg).Fit(tt.req)
			if why != nil {
				t.Fatal(why)
			}
			if diff := cmp.Diff(tt.want, taken(n, o)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if o.Tier != topo.None || o.NICs != nil {
				t.Errorf("NICs without RDMA: %v at %q", o.NICs, o.Tier)
			}
		})
	}
}

func whole(n int64) *request.Request { return coretest.Request(cfg, "", L{"gpu": n}) }

func shares(replica string) *request.Request {
	return coretest.Request(cfg, replica, L{"gpu-core": 30, "gpu-memory": 4})
}

func rdma(n int64) *request.Request { return coretest.Request(cfg, "", L{"gpu": n, "rdma": 1}) }

func TestTheFirstAskGetsItsBestCards(t *testing.T) {
	n := coretest.DGX1("n", cfg).Obj()
	o, why := NewView(n, cfg).Fit(coretest.Request(cfg, "", L{"gpu": 2}, L{"gpu": 4}))
	if why != nil {
		t.Fatal(why)
	}
	var first []string
	for _, g := range o.Containers["c1"] {
		first = append(first, g.Card)
	}
	want := []string{coretest.UUID("n", 0), coretest.UUID("n", 1), coretest.UUID("n", 2), coretest.UUID("n", 3)}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the larger ask is served first, with a quad of links:\n%s", diff)
	}
}

func TestRDMABringsNICs(t *testing.T) {
	// Only the even cards have a NIC near by, as on hopper-8gpu-4dualport-nic.
	even := func(node string, c config.Config) *coretest.NodeBuilder {
		b := coretest.Node(node, c).Cards(8, coretest.H800)
		for i := range 8 {
			b.At(i, string(rune('A'+i)), i/4, i/4)
			if i%2 == 0 {
				b.NICAt(string(rune('A'+i)), i/4, i/4)
			}
		}
		return b
	}
	oneDown := func(node string, c config.Config) *coretest.NodeBuilder { return m890p(node, c).Down(0) }
	noNICNear := func(node string, c config.Config) *coretest.NodeBuilder {
		return coretest.A10x8(node, c).NICAt("", 1, 1)
	}
	unknownNIC := func(node string, c config.Config) *coretest.NodeBuilder {
		return coretest.A10x8(node, c).NICAt("", -1, -1)
	}
	tests := map[string]struct {
		host       func(string, config.Config) *coretest.NodeBuilder
		held       []int
		req        *request.Request
		want       []int
		nics       []int
		tier, span topo.Tier
	}{
		"two cards and the NIC of one switch":           {m890p, []int{1}, rdma(2), []int{2, 3}, []int{1, 1}, topo.Switch, topo.Switch},
		"cards with a NIC near by before lower ones":    {even, nil, rdma(2), []int{0, 2}, []int{0, 1}, topo.Switch, topo.NUMA},
		"a switch whose NIC is down is the last":        {oneDown, nil, rdma(2), []int{2, 3}, []int{1, 1}, topo.Switch, topo.Switch},
		"its cards fall back to the socket":             {oneDown, []int{2, 3, 4, 5, 6, 7}, rdma(1), []int{0}, []int{1}, topo.Socket, topo.Socket},
		"four levels: NUMA node":                        {noNICNear, []int{0, 1}, rdma(2), []int{4, 5}, []int{0, 0}, topo.NUMA, topo.NUMA},
		"four levels: across sockets":                   {noNICNear, []int{4, 5, 6, 7}, rdma(1), []int{0}, []int{0}, topo.CrossSocket, topo.CrossSocket},
		"two cards free on each socket":                 {m890p, []int{0, 1, 6, 7}, rdma(4), []int{2, 3, 4, 5}, []int{1, 1, 2, 2}, topo.Switch, topo.CrossSocket},
		"nobody knows where the NIC is":                 {unknownNIC, nil, rdma(1), []int{0}, []int{0}, topo.Unknown, topo.Unknown},
		"a pair for each card of a DGX A100":            {coretest.DGXA100, nil, rdma(2), []int{0, 1}, []int{0, 1}, topo.Switch, topo.Switch},
		"810E with RDMA: the nearest NICs, then links":  {coretest.PPU810Ex8, []int{0}, rdma(4), []int{2, 3, 4, 5}, []int{1, 1, 2, 2}, topo.Switch, topo.CrossSocket},
		"a share near a NIC":                            {even, []int{0}, coretest.Request(cfg, "", L{"gpu-core": 20, "rdma": 1}), []int{2}, []int{1}, topo.Switch, topo.Switch},
		"the card with nothing known is the last":       {coretest.M890PUnknown, []int{0, 1, 2, 3, 4, 5}, rdma(1), []int{6}, []int{2}, topo.Socket, topo.Socket},
		"and is taken all the same, at a tier unknown":  {coretest.M890PUnknown, []int{0, 1, 2, 3, 4, 5}, rdma(2), []int{6, 7}, []int{2, 0}, topo.Unknown, topo.Unknown},
		"a NIC without an address cannot be handed out": {func(n string, c config.Config) *coretest.NodeBuilder { return coretest.A10x8(n, c).NIC("mlx5_0") }, nil, rdma(1), []int{0}, nil, topo.Unknown, topo.None},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := holding(tt.host("n", cfg), tt.held...)
			o, why := NewView(n, cfg).Fit(tt.req)
			if why != nil {
				t.Fatal(why)
			}
			if diff := cmp.Diff(tt.want, taken(n, o)); diff != "" {
				t.Errorf("cards (-want +got):\n%s", diff)
			}
			var nics []int
			for i, g := range o.NICs {
				if g.Card != coretest.UUID("n", tt.want[i]) {
					t.Errorf("NIC %d is for card %s", i, g.Card)
				}
				nics = append(nics, slices.IndexFunc(n.Inventory.NICs, func(x device.NIC) bool { return x.PCI == g.PCI }))
			}
			if diff := cmp.Diff(tt.nics, nics); diff != "" {
				t.Errorf("NICs (-want +got):\n%s", diff)
			}
			if o.Tier != tt.tier || o.Span != tt.span {
				t.Errorf("tier %q within %q, want %q within %q", o.Tier, o.Span, tt.tier, tt.span)
			}
		})
	}
}

func TestOfEqualNodesTheNearerCardsWin(t *testing.T) {
	type hosts = [2]*cluster.Node
	spread := cfg
	spread.NodePolicy = config.Spread
	tests := map[string]struct {
		better hosts // the first must score higher
		req    *request.Request
	}{
		"a double link before a single one": {hosts{holding(coretest.PPU810Ex8("a", cfg), 2, 3, 4, 5, 6, 7), holding(coretest.PPU810Ex8("b", cfg), 1, 2, 4, 5, 6, 7)}, whole(2)},
		"a link before none":                {hosts{holding(coretest.DGX1("a", cfg), 2, 3, 4, 5, 6, 7), holding(coretest.DGX1("b", cfg), 1, 2, 3, 4, 6, 7)}, whole(2)},
		"a NUMA node before two sockets":    {hosts{holding(coretest.A10x8("a", cfg), 2, 3, 4, 5, 6, 7), holding(coretest.A10x8("b", cfg), 1, 2, 3, 5, 6, 7)}, whole(2)},
		"a switch with a NIC in service":    {hosts{holding(m890p("a", cfg), 0), holding(m890p("b", cfg).Down(1).Down(2).Down(3), 0)}, rdma(2)},
		"a known tier before an unknown":    {hosts{coretest.A10x8("a", cfg).NICAt("", 1, 1).Obj(), coretest.A10x8("b", cfg).NICAt("", -1, -1).Obj()}, rdma(1)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, c := range []config.Config{cfg, spread} {
				a, b := NewView(tt.better[0], c).Score(tt.req), NewView(tt.better[1], c).Score(tt.req)
				if a <= b || a > 100 || b < 0 {
					t.Errorf("%s: scores %d and %d", c.NodePolicy, a, b)
				}
			}
		})
	}
	// A node that is one card fuller wins whatever its cards are like.
	full := holding(coretest.A10x8("a", cfg), 0, 1, 4, 5, 6, 7)
	near := holding(coretest.A10x8("b", cfg), 4, 5, 6, 7)
	far := holding(coretest.A10x8("c", cfg), 0, 1, 2, 4, 5)
	if a, b, c := NewView(full, cfg).Score(whole(2)), NewView(near, cfg).Score(whole(2)), NewView(far, cfg).Score(whole(2)); a <= c || c <= b {
		t.Errorf("binpack: scores %d, %d and %d, want them falling from the fullest node", a, c, b)
	}
}

// The sequences of requests that first-fit placers of instances fail at.
func TestInstancesLeaveTheLargePlacesOpen(t *testing.T) {
	tests := map[string]struct{ slices, starts []int }{
		"3 then 4":                            {[]int{3, 4}, []int{4, 0}},
		"1 then 4":                            {[]int{1, 4}, []int{6, 0}},
		"2 then 4":                            {[]int{2, 4}, []int{4, 0}},
		"4, 2, 1":                             {[]int{4, 2, 1}, []int{0, 4, 6}},
		"1, 1, 3, and 2 waits":                {[]int{1, 1, 3, 2}, []int{6, 5, 0, -1}},
		"seven single ones":                   {[]int{1, 1, 1, 1, 1, 1, 1, 1}, []int{6, 5, 4, 3, 2, 1, 0, -1}},
		"two of 3, then nothing but a 1 is 0": {[]int{3, 3, 1}, []int{4, 0, -1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := node("n").MIG(1, coretest.A100x80).Obj()
			var starts []int
			for _, s := range tt.slices {
				o, _ := NewView(n, cfg).Fit(coretest.Request(cfg, "", L{"gpu-slice": int64(s)}))
				if o == nil {
					starts = append(starts, -1)
					continue
				}
				starts = append(starts, *o.Containers["c0"][0].Start)
				n.Holds = append(n.Holds, cluster.Hold{Cards: o.Uses})
			}
			if diff := cmp.Diff(tt.starts, starts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// All 12,870 halves of a host of sixteen cards would be looked at otherwise:
// its two groups are linked in themselves only, so that most halves are out as
// soon as they have a card of each.
func TestFewSetsAreLookedAtOnLinkedHosts(t *testing.T) {
	for name, host := range map[string]func(string, config.Config) *coretest.NodeBuilder{"810E": coretest.PPU810Ex16, "DGX-2": coretest.DGX2} {
		r := whole(8)
		s := newSearch(NewView(host("n", cfg).Obj(), cfg), r)
		p := s.newPick(&r.Asks[0], s.candidates(&r.Asks[0]))
		if _, ok := p.run(); !ok || p.short || p.leaves > 300 {
			t.Errorf("%s: found %v after %d sets", name, ok, p.leaves)
		}
	}
}
