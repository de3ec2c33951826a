package cluster

import (
	"fmt"
	"sort"

	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/request"
)

// UseOf is what one grant takes of its card.
func UseOf(g device.Grant) CardUse {
	u := CardUse{Card: g.Card, Whole: g.Whole, Mask: g.Mask()}
	if g.Share {
		u.Shares = 1
		if g.Core != nil {
			u.Core = *g.Core
		}
		if g.MemMiB != nil {
			u.MemMiB = *g.MemMiB
		}
	}
	return u
}

// Granted is what an allocation takes by itself, as if all containers ran at
// once: what counts where the request cannot say in which phases they run,
// because a label or the cluster's settings have changed since. It is never
// less than HoldOf.
func Granted(a *device.Allocation) []CardUse {
	sum := map[string]CardUse{}
	for _, gs := range a.Containers {
		for _, g := range gs {
			sum[g.Card] = sum[g.Card].Plus(UseOf(g)).named(g.Card)
		}
	}
	return byCard(sum)
}

// HoldOf is what a pod with this request and allocation takes: for each card
// the peak over the phases of the pod's life, sorted by card. It refuses an
// allocation that does not answer the request, container by container.
func HoldOf(r *request.Request, a *device.Allocation) ([]CardUse, error) {
	if len(a.Containers) != len(r.Asks) {
		return nil, fmt.Errorf("allocation: %d containers have cards, the pod asks for %d", len(a.Containers), len(r.Asks))
	}
	peak := map[string]CardUse{}
	for p := 0; p < r.Phases; p++ {
		now := map[string]CardUse{}
		for i := range r.Asks {
			ask := &r.Asks[i]
			grants, ok := a.Containers[ask.Container]
			if !ok || len(grants) != ask.Count {
				return nil, fmt.Errorf("allocation: container %s has %d cards and asks for %d", ask.Container, len(grants), ask.Count)
			}
			if p < ask.From || p > ask.To {
				continue
			}
			for _, g := range grants {
				u := UseOf(g)
				now[g.Card] = now[g.Card].Plus(u).named(g.Card)
			}
		}
		for id, u := range now {
			peak[id] = peak[id].Peak(u).named(id)
		}
	}
	return byCard(peak), nil
}

func byCard(uses map[string]CardUse) []CardUse {
	out := make([]CardUse, 0, len(uses))
	for _, u := range uses {
		out = append(out, u)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Card < out[j].Card })
	return out
}

func (u CardUse) named(card string) CardUse { u.Card = card; return u }
