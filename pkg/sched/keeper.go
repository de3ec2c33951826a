package sched

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"lj.aliyun.com/kit/pkg/core/gang"
)

// Keeper does for groups what is beside placing them: it tells on the pods why
// members wait that the engine does not try, keeps the mark of groups that
// were placed whole, and frees the nodes of a group that stays bound in part.
//
// It works from what the API shows, so that the next leader goes on where this
// one has ended; what it remembers only spares writes and delays evictions.
type Keeper struct {
	state    *State
	client   kubernetes.Interface
	recorder events.EventRecorder
	clock    clock.WithTicker

	mu    sync.Mutex
	files map[types.NamespacedName]*file
}

// file is what the keeper remembers of one group. Only the worker that has the
// group uses it.
type file struct {
	// last is how the group looked, and since when it has.
	last  glance
	since time.Time
	// said is what the last event was about, "" if that has passed.
	said string

	// placed is how many members of a half-bound group had nodes or had
	// finished, and since when; zero if the group is not half-bound.
	placed   int
	progress time.Time
	// evictions so far; neither the next nor complaints about what is missing
	// since come before the time.
	evictions int
	notBefore time.Time
}

// glance is what makes a group look different to people.
type glance struct {
	size, members, bound, finished int
	wrong, pause                   string
}

const (
	// settle joins the changes of one moment.
	settle = time.Second
	// calm is how long a group must look the same before its members are told,
	// and calmEach more for each of them: a group whose pods are being made is
	// no news, and a big one that changes slowly is not written again and again.
	calm     = 3 * time.Second
	calmEach = 20 * time.Millisecond
	// again is when a write that has failed is tried anew.
	again = 5 * time.Second
	// keepers bounds the groups that are written at one time.
	keepers = 4
)

// NewKeeper returns a Keeper of the groups that state sees. Its writes go
// through client, which should have limits of its own, so that they never
// delay bindings.
func NewKeeper(state *State, client kubernetes.Interface, recorder events.EventRecorder, c clock.WithTicker) *Keeper {
	return &Keeper{state: state, client: client, recorder: recorder, clock: c, files: map[types.NamespacedName]*file{}}
}

// Phases counts the groups by how far they have come, phases without groups
// too.
func (k *Keeper) Phases() map[string]int {
	out := map[string]int{}
	for phase, n := range k.state.groups.phases(k.clock.Now().Unix(), k.state.Config().GangTimeoutSeconds) {
		out[string(phase)] = n
	}
	return out
}

// Run keeps groups until ctx ends. Only the process that leads may run it, and
// only once the caches are filled.
func (k *Keeper) Run(ctx context.Context) {
	q := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.NamespacedName]{Clock: k.clock})
	k.state.groups.watch(func(key types.NamespacedName) { q.AddAfter(key, settle) })
	var workers sync.WaitGroup
	for range keepers {
		workers.Go(func() {
			for {
				key, over := q.Get()
				if over {
					return
				}
				if d := k.keep(ctx, key); d > 0 {
					q.AddAfter(key, d)
				}
				q.Done(key)
			}
		})
	}
	<-ctx.Done()
	k.state.groups.watch(func(types.NamespacedName) {})
	q.ShutDown()
	workers.Wait()
}

// keep does what a group needs now. next is when to look again if nothing
// changes before, 0 for never.
func (k *Keeper) keep(ctx context.Context, key types.NamespacedName) (next time.Duration) {
	g, ok := k.state.groups.look(key)
	if !ok {
		k.mu.Lock()
		delete(k.files, key)
		k.mu.Unlock()
		return 0
	}
	if len(g.members) == 0 {
		return 0 // the last one's end is a change
	}
	now, timeout := k.clock.Now(), k.state.Config().GangTimeoutSeconds
	f := k.file(g)
	pause := k.state.pause(key)
	phase := g.core.Phase(now.Unix(), timeout)
	f.observe(g, phase, pause, now)
	if !g.core.Marked {
		if d := calm + time.Duration(len(g.members))*calmEach - now.Sub(f.since); d > 0 {
			return d
		}
	}
	if err := k.tell(ctx, g, phase, pause, now); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("A group's conditions were not written, trying again", "group", key, "err", err)
		next = again
	}
	var n news
	switch why := g.core.Why(now.Unix(), timeout); {
	case phase == gang.HalfBound:
		var d time.Duration
		d, n = k.free(ctx, g, f, now)
		next = sooner(next, d)
	case !g.core.Tried() && now.Before(f.notBefore): // its pods are being made anew
		n.about = f.said
		next = sooner(next, f.notBefore.Sub(now))
	case !g.core.Tried():
		n = news{about: string(why.Code), event: "FailedScheduling", action: "Scheduling", text: full(*why)}
	}
	k.say(g, f, n)
	if !g.core.Tried() && g.core.Wrong == nil {
		next = sooner(next, time.Unix(g.core.Created+timeout, 0).Sub(now))
	}
	return next
}

// sooner is the smaller of two times that are above 0.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return max(b, 0)
	}
	return a
}

func (k *Keeper) file(g *standing) *file {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.files[g.key]
	if f == nil {
		f = &file{said: lastSaid(g)}
		k.files[g.key] = f
	}
	return f
}

// observe takes how the group looks now.
func (f *file) observe(g *standing, phase gang.Phase, pause string, now time.Time) {
	l := glance{size: g.core.Size, members: g.core.Members, bound: g.core.Bound, finished: g.core.Finished, pause: pause}
	if g.core.Wrong != nil {
		l.wrong = full(*g.core.Wrong)
	}
	if l != f.last {
		f.last, f.since = l, now
	}
	placed := g.core.Bound + g.core.Finished
	switch {
	case phase == gang.Placed:
		f.evictions = 0
		fallthrough
	case phase != gang.HalfBound:
		f.progress = time.Time{}
	case f.progress.IsZero() || placed > f.placed:
		f.progress = now
	}
	f.placed = placed
}
