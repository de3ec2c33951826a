package place

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

var (
	cuttable = []string{coretest.A100x40, coretest.A100x80, coretest.H800, coretest.H20}
	models   = append([]string{coretest.T4, coretest.PPU810E, coretest.MI300X}, cuttable...)
)

func drawNode(t *rapid.T, most int) *cluster.Node {
	b := coretest.Node("n", cfg)
	for i, n := 0, rapid.IntRange(0, most).Draw(t, "cards"); i < n; i++ {
		m := rapid.SampledFrom(models).Draw(t, "model")
		if slices.Contains(cuttable, m) && rapid.Bool().Draw(t, "mig") {
			b.MIG(1, m)
		} else {
			b.Cards(1, m)
		}
		if rapid.IntRange(0, 9).Draw(t, "sick") == 0 {
			b.Sick(i, "xid-79")
		}
	}
	b.NIC("mlx5_0")
	return b.Obj()
}

func drawLimits(t *rapid.T) L {
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return L{"nvidia": int64(rapid.IntRange(1, 3).Draw(t, "n"))}
	case 1:
		return L{"gpu": int64(rapid.IntRange(1, 3).Draw(t, "n"))}
	case 2:
		return L{"gpu-slice": int64(rapid.SampledFrom(mig.AllowedSlices()).Draw(t, "s")), "gpu-memory": int64(rapid.IntRange(0, 40).Draw(t, "m"))}
	}
	l := L{}
	if rapid.Bool().Draw(t, "hasCore") {
		l["gpu-core"] = int64(rapid.IntRange(1, 100).Draw(t, "c"))
	}
	if rapid.Bool().Draw(t, "hasMem") || len(l) == 0 {
		l["gpu-memory"] = int64(rapid.IntRange(1, 90).Draw(t, "m"))
	}
	return l
}

func drawRequest(t *rapid.T, uid string, c config.Config) *request.Request {
	p := request.Pod{Namespace: "default", Name: uid, UID: uid, Labels: map[string]string{}}
	if n := rapid.IntRange(1, 3).Draw(t, "replica"); n > 1 {
		p.Labels["replica"] = fmt.Sprint(n)
	}
	for i, n := 0, rapid.IntRange(0, 1).Draw(t, "inits"); i < n; i++ {
		p.Containers = append(p.Containers, coretest.Container(c, fmt.Sprintf("i%d", i),
			rapid.SampledFrom([]request.Kind{request.Init, request.Sidecar}).Draw(t, "initKind"), drawLimits(t)))
	}
	for i, n := 0, rapid.IntRange(1, 2).Draw(t, "apps"); i < n; i++ {
		p.Containers = append(p.Containers, coretest.Container(c, fmt.Sprintf("c%d", i), request.App, drawLimits(t)))
	}
	r, bad := request.Parse(p, c)
	if bad != nil {
		t.Fatalf("a legal request was refused: %v", bad)
	}
	return r
}

// Everything that is handed out is recomputed from the allocations alone, by
// rules written again here: that is the point of the test.
func checkNothingTwice(t *rapid.T, n *cluster.Node) {
	for i := range n.Inventory.Cards {
		c := &n.Inventory.Cards[i]
		var core, mem int64
		var whole, shares, cut int
		var mask mig.Mask
		for _, h := range n.Holds {
			for _, u := range h.Cards {
				if u.Card != c.UUID {
					continue
				}
				if u.Whole {
					whole++
					continue
				}
				core, mem, shares = core+u.Core, mem+u.MemMiB, shares+u.Shares
				if u.Mask&mask != 0 {
					t.Fatalf("card %s: instances overlap: %08b and %08b", c.UUID, mask, u.Mask)
				}
				if u.Mask != 0 {
					cut++
				}
				mask |= u.Mask
			}
		}
		switch {
		case whole > 1 || whole == 1 && (shares > 0 || cut > 0):
			t.Fatalf("card %s: whole %d, shares %d, instances %d", c.UUID, whole, shares, cut)
		case core > 100 || mem > c.MemMiB/1024*1024:
			t.Fatalf("card %s: %d %% and %d MiB of %d", c.UUID, core, mem, c.MemMiB)
		case shares > 0 && cut > 0, cut > 0 && !c.InMIGMode(), (shares > 0 || whole > 0) && c.InMIGMode():
			t.Fatalf("card %s: MIG mode %v, shares %d, whole %d, instances %d", c.UUID, c.InMIGMode(), shares, whole, cut)
		case (whole+shares+cut) > 0 && !c.Healthy():
			t.Fatalf("card %s is sick and was handed out", c.UUID)
		case (shares > 0 || cut > 0) && !c.Vendor.Shareable():
			t.Fatalf("card %s of %s was shared", c.UUID, c.Vendor)
		}
	}
}

func TestNothingIsHandedOutTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := cfg
		c.CardPolicy = rapid.SampledFrom(config.Policies()).Draw(t, "policy")
		n := drawNode(t, 6)
		for i, pods := 0, rapid.IntRange(1, 12).Draw(t, "pods"); i < pods; i++ {
			uid := fmt.Sprintf("p%d", i)
			if len(n.Holds) > 0 && rapid.IntRange(0, 4).Draw(t, "end") == 0 {
				k := rapid.IntRange(0, len(n.Holds)-1).Draw(t, "which")
				n.Holds = append(append([]cluster.Hold(nil), n.Holds[:k]...), n.Holds[k+1:]...)
			}
			r := drawRequest(t, uid, c)
			o, why := NewView(n, c).Fit(r)
			if (o == nil) == (len(why) == 0) {
				t.Fatalf("offer %v with reasons %v", o, why)
			}
			if got := NewView(n, c).Check(r); (got == nil) != (o != nil) {
				t.Fatalf("Check says %v, Fit offers %v", got, o)
			}
			for _, w := range why {
				if _, ok := reason.Lookup(w.Code); !ok {
					t.Fatalf("code %q is not in the list", w.Code)
				}
			}
			if o == nil {
				continue
			}
			hold := throughTheRecord(t, r, n, o)
			if diff := cmp.Diff(o.Uses, hold); diff != "" {
				t.Fatalf("what the offer says it holds differs from what its record says:\n%s", diff)
			}
			n.Holds = append(n.Holds, cluster.Hold{UID: uid, Pod: "default/" + uid, Cards: hold})
			checkNothingTwice(t, n)
		}
	})
}

// throughTheRecord writes the offer as an allocation, reads it back as the
// agent would, and returns what the pod then holds.
func throughTheRecord(t *rapid.T, r *request.Request, n *cluster.Node, o *Offer) []cluster.CardUse {
	text, err := device.EncodeAllocation(&device.Allocation{UID: r.UID, Node: n.Name, Containers: o.Containers})
	if err != nil {
		t.Fatal(err)
	}
	a, err := device.DecodeAllocation(text, r.UID, n.Name)
	if err != nil {
		t.Fatal(err)
	}
	hold, err := cluster.HoldOf(r, a)
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

func TestSmallHostsAgreeWithBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t, 3)
		for i := range 3 {
			uid := fmt.Sprintf("h%d", i)
			r := drawRequest(t, uid, cfg)
			if o, _ := NewView(n, cfg).Fit(r); o != nil {
				n.Holds = append(n.Holds, cluster.Hold{UID: uid, Cards: o.Uses})
			}
		}
		r := drawRequest(t, "p", cfg)
		want := bruteForce(n, r)
		if got := NewView(n, cfg).Check(r); (got == nil) != want {
			t.Fatalf("place says %v, brute force says fits=%v\nrequest %+v", got, want, r.Asks)
		}
	})
}

// bruteForce tries every assignment of cards and starts, with the rules of
// the seeds written out once more and no order, bound or shortcut.
func bruteForce(n *cluster.Node, r *request.Request) bool {
	type slot struct{ ask, k int }
	var slots []slot
	for i, a := range r.Asks {
		for k := range a.Count {
			slots = append(slots, slot{i, k})
		}
	}
	given := make([][]device.Grant, len(r.Asks))
	var try func(int) bool
	try = func(s int) bool {
		if s == len(slots) {
			return legal(n, r, given)
		}
		a := &r.Asks[slots[s].ask]
		for ci := range n.Inventory.Cards {
			for _, g := range ways(n.Inventory, &n.Inventory.Cards[ci], a) {
				given[slots[s].ask] = append(given[slots[s].ask], g)
				if partlyLegal(given[slots[s].ask]) && try(s+1) {
					return true
				}
				given[slots[s].ask] = given[slots[s].ask][:len(given[slots[s].ask])-1]
			}
		}
		return false
	}
	return try(0)
}

func partlyLegal(gs []device.Grant) bool { // cards of one container differ; order does not matter
	for i := 1; i < len(gs); i++ {
		if gs[i].Card <= gs[i-1].Card {
			return false
		}
	}
	return true
}

func ways(inv *device.Inventory, c *device.Card, a *request.Ask) []device.Grant {
	g := device.Grant{Card: c.UUID}
	switch {
	case !c.Healthy(), a.NVIDIAOnly && c.Vendor != device.NVIDIA:
		return nil
	case a.Mode == request.Whole && !c.InMIGMode():
		g.Whole = true
		return []device.Grant{g}
	case a.Mode == request.TDM && !c.InMIGMode() && c.Vendor != device.AMD:
		core, mem := a.Core, a.MemMiB
		g.Share, g.Core, g.MemMiB = true, &core, &mem
		return []device.Grant{g}
	case a.Mode == request.MIG && c.InMIGMode() && cfg.MIGModelAllowed(c.Model):
		var out []device.Grant
		for _, p := range mig.Catalogue(c.Model, c.MemMiB) {
			for _, s := range p.Starts {
				if p.Slices == a.Slices && p.MemMiB >= a.MemMiB {
					start := s
					out = append(out, device.Grant{Card: c.UUID, MIG: p.Name, Start: &start, Size: p.Size})
				}
			}
		}
		return out
	}
	return nil
}

func legal(n *cluster.Node, r *request.Request, given [][]device.Grant) bool {
	for p := range r.Phases {
		for i := range n.Inventory.Cards {
			c := &n.Inventory.Cards[i]
			var core, mem int64
			whole, shares := 0, 0
			var mask mig.Mask
			add := func(u cluster.CardUse) bool {
				if u.Whole { // the peak of a pod that also has a share of it at another time
					whole++
					return true
				}
				core, mem, shares = core+u.Core, mem+u.MemMiB, shares+u.Shares
				clash := mask&u.Mask != 0
				mask |= u.Mask
				return !clash
			}
			for _, h := range n.Holds {
				for _, u := range h.Cards {
					if u.Card == c.UUID && !add(u) {
						return false
					}
				}
			}
			for ai := range r.Asks {
				for _, g := range given[ai] {
					if g.Card == c.UUID && p >= r.Asks[ai].From && p <= r.Asks[ai].To && !add(cluster.UseOf(g)) {
						return false
					}
				}
			}
			if whole > 1 || whole == 1 && (shares > 0 || mask != 0) || core > 100 || mem > c.MemMiB/1024*1024 {
				return false
			}
		}
	}
	return true
}

func TestShufflingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t, 6)
		for i := range 4 {
			uid := fmt.Sprintf("h%d", i)
			if o, _ := NewView(n, cfg).Fit(drawRequest(t, uid, cfg)); o != nil {
				n.Holds = append(n.Holds, cluster.Hold{UID: uid, Pod: uid, Cards: o.Uses})
			}
		}
		r := drawRequest(t, "p", cfg)
		want, wantWhy := NewView(n, cfg).Fit(r)
		m := *n
		m.Holds = rapid.Permutation(n.Holds).Draw(t, "holds")
		got, gotWhy := NewView(&m, cfg).Fit(r)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("offer differs:\n%s", diff)
		}
		if diff := cmp.Diff(wantWhy, gotWhy); diff != "" {
			t.Fatalf("reasons differ:\n%s", diff)
		}
	})
}

func TestMoreFreeCardsNeverTurnAFitIntoARefusal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t, 5)
		for i := range 3 {
			uid := fmt.Sprintf("h%d", i)
			if o, _ := NewView(n, cfg).Fit(drawRequest(t, uid, cfg)); o != nil {
				n.Holds = append(n.Holds, cluster.Hold{UID: uid, Cards: o.Uses})
			}
		}
		r := drawRequest(t, "p", cfg)
		if NewView(n, cfg).Check(r) != nil || len(n.Holds) == 0 {
			return
		}
		m := *n
		m.Holds = n.Holds[1:]
		if why := NewView(&m, cfg).Check(r); why != nil {
			t.Fatalf("a pod ended and the request fits no more: %v", why)
		}
	})
}
