package place

import (
	"sort"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// refuse says why a card with this use cannot serve the ask, with the code
// of what is hardest to change first; empty if it can. It is the rule of the
// whole package and allocates nothing unless MIG slices are asked.
func (v *View) refuse(a *request.Ask, c *card, use cluster.CardUse) reason.Code {
	switch a.Mode {
	case request.Whole:
		return refuseWhole(a, c, use)
	case request.TDM:
		return refuseShare(a, c, use)
	case request.MIG:
		return v.refuseSlice(a, c, use)
	}
	return ""
}

func refuseWhole(a *request.Ask, c *card, use cluster.CardUse) reason.Code {
	switch {
	case !c.dev.Vendor.IsGPU() || a.NVIDIAOnly && c.dev.Vendor != device.NVIDIA:
		return "gpu-vendor"
	case !c.dev.Healthy():
		return "gpu-unhealthy"
	case c.dev.InMIGMode():
		return "gpu-in-mig-mode"
	case use.Whole:
		return "gpu-held-whole"
	case !use.Untouched():
		return "gpu-shared"
	}
	return ""
}

func refuseShare(a *request.Ask, c *card, use cluster.CardUse) reason.Code {
	switch {
	case !c.dev.Vendor.Shareable():
		return "gpu-vendor"
	case !c.dev.Healthy():
		return "gpu-unhealthy"
	case c.dev.InMIGMode():
		return "gpu-in-mig-mode"
	case a.MemMiB > c.shareMiB:
		return "gpu-memory-small"
	case use.Whole:
		return "gpu-held-whole"
	case use.Mask != 0: // a PPU cut in space
		return "gpu-shared"
	case use.MemMiB+a.MemMiB > c.shareMiB:
		return "gpu-memory-short"
	case use.Core+a.Core > fullCore:
		return "gpu-core-short"
	}
	return ""
}

// fullCore is the compute of one card, in percent.
const fullCore = 100

func (v *View) refuseSlice(a *request.Ask, c *card, use cluster.CardUse) reason.Code {
	if code := v.refuseCut(c); code != "" {
		return code
	}
	if use.Whole {
		return "gpu-held-whole"
	}
	if use.Shares > 0 {
		return "gpu-shared"
	}
	fitting := mig.Candidates(v.profiles(c), a.Slices, a.MemMiB)
	if len(fitting) == 0 {
		return "gpu-mig-no-profile"
	}
	for _, p := range fitting {
		if p.Room(use.Mask) > 0 {
			return ""
		}
	}
	return "gpu-mig-no-placement"
}

// refuseCut says why no instance at all can be cut from the card: vendor,
// health, model or mode.
func (v *View) refuseCut(c *card) reason.Code {
	switch {
	case c.dev.Vendor == device.PPU:
		// PPUs are cut by their own means, without a mode to enable, and only
		// where the agent lists profiles.
		if len(v.Node.Inventory.Profiles[c.dev.Model]) == 0 {
			return "gpu-vendor"
		}
	case c.dev.Vendor != device.NVIDIA:
		return "gpu-vendor"
	}
	switch {
	case c.dev.Vendor == device.NVIDIA && !v.cfg.MIGModelAllowed(c.dev.Model):
		return "gpu-mig-model" // before health: a well card of the model would not do either
	case !c.dev.Healthy():
		return "gpu-unhealthy"
	case c.dev.Vendor == device.NVIDIA && !c.dev.InMIGMode():
		return "gpu-not-in-mig-mode"
	}
	return ""
}

// grants are the ways in which a card that does not refuse the ask can serve
// it, best first: one, unless a MIG instance can lie in several places. own
// is what the pod itself has of the card in any phase of its life, which
// costs nothing to use again.
func (v *View) grants(a *request.Ask, c *card, use, own cluster.CardUse) []device.Grant {
	g := device.Grant{Card: c.dev.UUID}
	switch a.Mode {
	case request.Whole:
		g.Whole = true
	case request.TDM:
		g.Share = true
		if a.Core > 0 {
			core := a.Core
			g.Core = &core
		}
		if a.MemMiB > 0 {
			mem := a.MemMiB
			g.MemMiB = &mem
		}
	case request.MIG:
		return v.instances(a, c, use.Mask, own.Mask)
	}
	return []device.Grant{g}
}

// instances lists profiles and starts: the smallest profile first; of its
// starts those inside what the pod holds anyway, then those that keep the
// card most open.
func (v *View) instances(a *request.Ask, c *card, used, own mig.Mask) []device.Grant {
	profiles := v.profiles(c)
	var out []device.Grant
	for _, p := range mig.Candidates(profiles, a.Slices, a.MemMiB) {
		starts := p.Free(used)
		sort.SliceStable(starts, func(i, j int) bool {
			mi, mj := mig.MaskAt(starts[i], p.Size), mig.MaskAt(starts[j], p.Size)
			if inI, inJ := mi&^own == 0, mj&^own == 0; inI != inJ {
				return inI
			}
			oi, oj := mig.Openness(used|own|mi, profiles), mig.Openness(used|own|mj, profiles)
			if oi != oj {
				return oi > oj
			}
			return starts[i] > starts[j]
		})
		for _, s := range starts {
			start := s
			out = append(out, device.Grant{Card: c.dev.UUID, MIG: p.Name, Start: &start, Size: p.Size})
		}
	}
	return out
}
