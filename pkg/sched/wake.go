package sched

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
)

// The engine puts a group off for longer the larger it is (ten seconds times
// the root of its size) after some refusals, and cards that come free one by
// one make many. So when pods with cards have ended, the groups that are first
// in line are tried whatever they are put off for.

const (
	// wakeAfter joins pods that end together.
	wakeAfter = 250 * time.Millisecond
	// wakeFirst bounds how many groups are tried for it.
	wakeFirst = 4
)

// freed comes when a pod has given cards back.
func (p *Plugin) freed() {
	if p.waking.CompareAndSwap(false, true) {
		p.clock.AfterFunc(wakeAfter, func() {
			p.waking.Store(false)
			for _, key := range p.state.groups.inLine(wakeFirst) {
				p.wake(key)
			}
		})
	}
}

// waking: a call is on its way.
type waking struct{ atomic.Bool }

// inLine lists the first n of the groups that wait for room, in the order in
// which they are tried.
func (g *groups) inLine(n int) []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	var wait []*group
	for _, x := range g.byKey {
		c := &x.core
		if len(x.pods) > 0 && c.Wrong == nil && c.Members > c.Bound && c.Members+c.Finished >= c.Size {
			wait = append(wait, x)
		}
	}
	slices.SortFunc(wait, func(a, b *group) int {
		started := func(x *group) int { return min(x.core.Bound, 1) }
		return cmp.Or(cmp.Compare(priorityOf(b), priorityOf(a)), cmp.Compare(started(b), started(a)),
			cmp.Compare(a.core.Created, b.core.Created), strings.Compare(a.key.String(), b.key.String()))
	})
	var out []types.NamespacedName
	for _, x := range wait[:min(n, len(wait))] {
		out = append(out, x.key)
	}
	return out
}

func priorityOf(x *group) int32 {
	for _, p := range x.pods {
		return v1helper.PodPriority(p) // the same for all
	}
	return 0
}
