package place

import (
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// whyNot sums the cards' refusals up into reasons about the node. It is
// called only when the request does not fit, and always finds a reason. The
// first reason tells whether the node is worth waiting for: an ask that no
// release can serve comes before those that only wait.
func (v *View) whyNot(r *request.Request) []reason.Reason {
	var never, waits []reason.Reason
	for i := range r.Asks {
		a := &r.Asks[i]
		t := v.tallyOf(a)
		if t.count("") >= a.Count {
			continue
		}
		if rs := v.sum(a, t); lasting(rs[0]) {
			never = append(never, rs...)
		} else {
			waits = append(waits, rs...)
		}
	}
	var out []reason.Reason
	seen := map[reason.Code]bool{}
	for _, why := range append(never, waits...) {
		if !seen[why.Code] {
			seen[why.Code] = true
			out = append(out, why)
		}
	}
	if len(out) == 0 {
		out = append(out, reason.Reason{Code: "pod-fits-piecewise", Want: int64(len(r.Asks))})
	}
	return out
}

func lasting(r reason.Reason) bool {
	c := reason.CureOf(r.Code)
	return c != reason.CureRelease && c != reason.CureSelf
}

// tally has the positions of the cards by what they refuse with.
type tally map[reason.Code][]int

func (t tally) count(codes ...reason.Code) int {
	n := 0
	for _, c := range codes {
		n += len(t[c])
	}
	return n
}

func (v *View) tallyOf(a *request.Ask) tally {
	t := tally{}
	for i := range v.cards {
		code := v.refuse(a, &v.cards[i], v.cards[i].use)
		t[code] = append(t[code], i)
	}
	return t
}

// sum explains why fewer cards than a.Count can serve the ask.
func (v *View) sum(a *request.Ask, t tally) []reason.Reason {
	gpus := 0
	for i := range v.cards {
		if v.cards[i].dev.Vendor.IsGPU() {
			gpus++
		}
	}
	if gpus == 0 {
		return []reason.Reason{{Code: "no-gpu-on-node"}}
	}
	if wrong := t.count("gpu-vendor"); wrong == len(v.cards) {
		return []reason.Reason{v.vendorReason(a)}
	}
	want, free := int64(a.Count), int64(t.count(""))
	total := int64(len(v.cards) - t.count("gpu-vendor"))
	if a.Mode == request.MIG {
		if rs := v.sumSlices(a, t, total); rs != nil {
			return rs
		}
	} else if rs := v.sumLasting(a, t, total); rs != nil {
		return rs
	}
	return v.sumBusy(a, t, want, free, total)
}

// sumLasting finds what no release of cards can mend: too few cards of the
// size, in the mode, in health.
func (v *View) sumLasting(a *request.Ask, t tally, total int64) []reason.Reason {
	want := int64(a.Count)
	if total < want {
		return []reason.Reason{v.tooMany(a, total)}
	}
	// Size before health and mode: a card that is too small stays it.
	large, largest := total, int64(0)
	if a.Mode == request.TDM {
		large, largest = v.large(a.MemMiB)
	}
	if large < want {
		if a.MemMiB > largest {
			u := v.Node.Inventory.Unit
			return []reason.Reason{{Code: "memory-above-largest-gpu", Want: a.MemMiB / u.MiB(), Free: largest / u.MiB(), Total: largest / u.MiB(), Unit: string(u)}}
		}
		return []reason.Reason{v.tooMany(a, large)}
	}
	sick, cut := v.ofSize(t["gpu-unhealthy"], a), v.ofSize(t["gpu-in-mig-mode"], a)
	if large-int64(len(sick)+len(cut)) >= want {
		return nil
	}
	var out []reason.Reason
	if len(sick) > 0 {
		out = append(out, v.sickReason(want, large, sick))
	}
	if len(cut) > 0 {
		out = append(out, reason.Reason{Code: "gpus-in-mig-mode", Want: want, Free: large - int64(len(cut)), Total: large, Unit: "cards"})
	}
	return out
}

// large counts the cards that can be divided and offer so much memory, in any
// mode and health, and says what the largest offers.
func (v *View) large(memMiB int64) (n, largest int64) {
	for i := range v.cards {
		c := &v.cards[i]
		if !c.dev.Vendor.Shareable() {
			continue
		}
		largest = max(largest, c.shareMiB)
		if c.shareMiB >= memMiB {
			n++
		}
	}
	return n, largest
}

// ofSize keeps the cards that are large enough for the ask.
func (v *View) ofSize(cards []int, a *request.Ask) []int {
	if a.Mode != request.TDM {
		return cards
	}
	var out []int
	for _, i := range cards {
		if v.cards[i].shareMiB >= a.MemMiB {
			out = append(out, i)
		}
	}
	return out
}

func (v *View) tooMany(a *request.Ask, total int64) reason.Reason {
	code := reason.Code("gpus-above-node")
	if a.Mode != request.Whole {
		code = "replica-above-gpus-per-node"
	}
	return reason.Reason{Code: code, Want: int64(a.Count), Free: total, Total: total, Unit: "cards"}
}

func (v *View) sickReason(want, total int64, sick []int) reason.Reason {
	if int64(len(sick)) == total {
		return reason.Reason{Code: "all-gpus-unhealthy", Want: want, Total: total, Unit: "cards", Detail: v.illnesses(sick)}
	}
	return reason.Reason{Code: "unhealthy-gpu", Want: want, Free: total - int64(len(sick)), Total: total, Unit: "cards", Detail: v.illnesses(sick)}
}

// illnesses names sick cards with their codes.
func (v *View) illnesses(cards []int) []string {
	var out []string
	for _, i := range cards {
		d := v.cards[i].dev
		s := d.UUID
		for _, h := range d.Health {
			s += " " + h.Code
		}
		out = append(out, s)
	}
	return out
}

func (v *View) vendorReason(a *request.Ask) reason.Reason {
	vendors := map[device.Vendor]bool{}
	for i := range v.cards {
		vendors[v.cards[i].dev.Vendor] = true
	}
	if len(vendors) == 1 && vendors[device.AMD] && a.Mode != request.Whole {
		return reason.Reason{Code: "amd-no-share"}
	}
	var names []string
	for _, k := range device.Vendors() {
		if vendors[k] {
			names = append(names, string(k))
		}
	}
	return reason.Reason{Code: "vendor-mismatch", Detail: names}
}

// sumSlices finds what keeps instances from being cut at all; nil if slices
// are only in use.
func (v *View) sumSlices(a *request.Ask, t tally, total int64) []reason.Reason {
	want := int64(a.Count)
	off, model, profile, sick := int64(t.count("gpu-not-in-mig-mode")), int64(t.count("gpu-mig-model")),
		int64(t.count("gpu-mig-no-profile")), int64(t.count("gpu-unhealthy"))
	switch {
	case total < want:
		return []reason.Reason{v.tooMany(a, total)}
	case model == total:
		return []reason.Reason{{Code: "mig-model-not-supported", Detail: v.models(t["gpu-mig-model"])}}
	case total-off-model-profile-sick >= want:
		return nil
	}
	var out []reason.Reason
	if sick > 0 {
		out = append(out, v.sickReason(want, total, t["gpu-unhealthy"]))
	}
	if profile > 0 {
		var most int64
		for _, i := range t["gpu-mig-no-profile"] {
			most = max(most, mig.MaxMemMiB(v.profiles(&v.cards[i]), a.Slices))
		}
		out = append(out, reason.Reason{Code: "slice-memory-too-large", Want: a.MemMiB, Free: most, Unit: "MiB"})
	}
	if off > 0 {
		out = append(out, reason.Reason{Code: "mig-not-enabled", Want: want, Free: total - off, Total: total, Unit: "cards"})
	}
	if model > 0 {
		out = append(out, reason.Reason{Code: "mig-model-not-supported", Detail: v.models(t["gpu-mig-model"])})
	}
	return out
}

func (v *View) models(cards []int) []string {
	var out []string
	for _, i := range cards {
		if m := v.cards[i].dev.Model; len(out) == 0 || out[len(out)-1] != m {
			out = append(out, m)
		}
	}
	return out
}

// sumBusy explains cards that would do if other pods had not got them.
func (v *View) sumBusy(a *request.Ask, t tally, want, free, total int64) []reason.Reason {
	busy := reason.Reason{Code: "gpus-busy", Want: want, Free: free, Total: total, Unit: "cards"}
	var out []reason.Reason
	switch {
	case a.Mode == request.MIG && t.count("gpu-mig-no-placement") > 0:
		slices := 0
		for _, i := range t["gpu-mig-no-placement"] {
			slices += v.cards[i].use.Mask.FreeSlices()
		}
		out = append(out, reason.Reason{Code: "mig-no-placement", Want: int64(a.Slices), Free: int64(slices), Total: total, Unit: "memory slices",
			Device: profileName(a)})
	case a.Mode == request.Whole && t.count("gpu-shared") > 0:
		out = append(out, reason.Reason{Code: "no-whole-gpu-free", Want: want, Free: free, Total: total, Unit: "cards"})
	case a.Mode == request.TDM && t.count("gpu-memory-short", "gpu-core-short") > 0:
		out = append(out, v.sumShare(a, t, busy))
	default:
		out = append(out, busy)
	}
	if t.count("gpu-in-mig-mode") > 0 {
		cut := int64(t.count("gpu-in-mig-mode"))
		out = append(out, reason.Reason{Code: "gpu-in-mig-mode", Want: want, Free: total - cut, Total: total, Unit: "cards"})
	}
	return out
}

// sumShare tells fragmentation from want: enough in sum or not, and which of
// the two dimensions is short.
func (v *View) sumShare(a *request.Ask, t tally, busy reason.Reason) reason.Reason {
	if a.Count > 1 {
		return reason.Reason{Code: "replica-cards-short", Want: busy.Want, Free: busy.Free, Total: busy.Total, Unit: "cards"}
	}
	var bestMem, sumMem, bestCore, sumCore int64
	for _, code := range []reason.Code{"gpu-memory-short", "gpu-core-short"} {
		for _, i := range t[code] {
			c := &v.cards[i]
			mem, core := c.shareMiB-c.use.MemMiB, fullCore-c.use.Core
			bestMem, sumMem = max(bestMem, mem), sumMem+mem
			bestCore, sumCore = max(bestCore, core), sumCore+core
		}
	}
	unit := v.Node.Inventory.Unit
	switch {
	case bestMem >= a.MemMiB && bestCore >= a.Core:
		return reason.Reason{Code: "no-card-has-both", Want: busy.Want, Total: busy.Total, Unit: "cards"}
	case bestMem < a.MemMiB && sumMem >= a.MemMiB:
		return reason.Reason{Code: "fragmented-memory", Want: a.MemMiB / unit.MiB(), Free: bestMem / unit.MiB(), Total: sumMem / unit.MiB(), Unit: string(unit)}
	case bestCore < a.Core && sumCore >= a.Core:
		return reason.Reason{Code: "fragmented-core", Want: a.Core, Free: bestCore, Total: sumCore, Unit: "%"}
	}
	return busy
}
