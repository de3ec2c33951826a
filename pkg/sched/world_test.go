package sched

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/utils/clock"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/place"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched/schedtest"
)

// fastClock is a clock by which time passes many times as fast.
type fastClock struct {
	clock.RealClock
	start time.Time
	by    time.Duration
}

func (c fastClock) Now() time.Time                         { return c.start.Add(time.Since(c.start) * c.by) }
func (c fastClock) Since(t time.Time) time.Duration        { return c.Now().Sub(t) }
func (c fastClock) After(d time.Duration) <-chan time.Time { return c.RealClock.After(d / c.by) }
func (c fastClock) NewTimer(d time.Duration) clock.Timer   { return c.RealClock.NewTimer(d / c.by) }
func (c fastClock) NewTicker(d time.Duration) clock.Ticker { return c.RealClock.NewTicker(d / c.by) }
func (c fastClock) Sleep(d time.Duration)                  { c.RealClock.Sleep(d / c.by) }
func (c fastClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return c.RealClock.AfterFunc(d/c.by, f)
}

// world is an API server and the scheduler process of the moment.
type world struct {
	t      testing.TB
	api    *apiServer
	proc   *process
	state  *State
	engine *scheduler.Scheduler
	done   chan struct{}
	// by is how many times as fast the scheduler's clock runs. The time that
	// members of a group wait for each other must stay long beside the pauses
	// of a busy machine.
	by   time.Duration
	conf config.Config

	hearing sync.Mutex
	heard   map[string]told
}

// dying lets a scheduler end in the middle of its loop. The engine scores the
// placements of a group in parallel, does nothing there once its context is
// over, and then takes the answer that is missing for one (findBestPlacement,
// v1.37.2): a panic that its process no longer notices. Others end the tests.
var dying = sync.OnceFunc(func() {
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, func(ctx context.Context, r any) {
		if ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "panic: %v\n%s", r, debug.Stack())
			os.Exit(2)
		}
	})
})

func newWorld(t testing.TB, objs ...runtime.Object) *world {
	dying()
	w := &world{t: t, api: newAPI(t, objs...), by: 50, conf: cfg, heard: map[string]told{}}
	t.Cleanup(func() {
		if w.proc != nil {
			w.kill()
		}
	})
	return w
}

// run starts a scheduler process.
func (w *world) run() {
	w.t.Helper()
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	w.proc, w.state, w.done = &process{api: w.api, end: stop}, NewState(w.conf), make(chan struct{})
	client := w.proc.clientset()
	factory := scheduler.NewInformerFactory(client, 0, nil)
	if err := w.state.Attach(ctx, client, factory); err != nil {
		w.t.Fatal(err)
	}
	quick := fastClock{start: time.Now(), by: w.by}
	engine, err := scheduler.New(ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return ear{w: w} },
		scheduler.WithProfiles(Profiles()...),
		scheduler.WithFrameworkOutOfTreeRegistry(NewRegistry(w.state)),
		scheduler.WithClock(quick),
		scheduler.WithPodInitialBackoffSeconds(1), scheduler.WithPodMaxBackoffSeconds(2),
		// What no event wakes waits for ever: a hint that is missing shows.
		scheduler.WithPodMaxInUnschedulablePodsDuration(1000*time.Hour))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range w.state.plugins {
		p.clock = quick
	}
	w.engine = engine
	runEngine(ctx, w.t, engine, factory, w.done)
}

// told is the events about a pod: how many, and the last.
type told struct {
	count int
	last  string
}

// ear hears events.
type ear struct {
	events.EventRecorderLogger
	w *world
}

func (e ear) WithLogger(klog.Logger) events.EventRecorderLogger { return e }

func (e ear) Eventf(regarding, _ runtime.Object, _, why, _, note string, args ...any) {
	p, ok := regarding.(*v1.Pod)
	if !ok {
		return
	}
	e.w.hearing.Lock()
	defer e.w.hearing.Unlock()
	e.w.heard[p.Name] = told{e.w.heard[p.Name].count + 1, why + ": " + fmt.Sprintf(note, args...)}
}

// kill ends the scheduler as a crash would.
func (w *world) kill() {
	w.proc.kill()
	<-w.done
	w.proc = nil
}

// bindings are the nodes of the bound pods whose names begin so.
func (w *world) bindings(prefix string) map[string]string {
	out := map[string]string{}
	for _, p := range w.api.pods() {
		if p.Spec.NodeName != "" && strings.HasPrefix(p.Name, prefix) {
			out[p.Name] = p.Spec.NodeName
		}
	}
	return out
}

// flushAfter is when waiting pods are tried again whatever has woken them: the
// engine does so after five minutes, by a clock that is not the world's.
const flushAfter = 10 * time.Second

// settled waits until the cluster is as it should be when nobody does anything
// and every kubelet does its work: whoever fits is placed, no group is half
// placed unless excused, and the scheduler holds and remembers nothing that is
// not there.
func (w *world) settled(excused func(types.NamespacedName) bool) {
	w.t.Helper()
	flush := time.Now().Add(flushAfter)
	within(w.t, 40*time.Second, w.explain, func() string {
		if time.Now().After(flush) {
			flush = time.Now().Add(flushAfter)
			w.t.Log("waiting pods are tried again, as after five minutes")
			w.state.Retry(klog.Background())
		}
		w.api.reap()
		w.api.mu.Lock()
		defer w.api.mu.Unlock()
		if len(w.api.wrong) > 0 {
			w.t.Fatalf("wrong when bound: %s", strings.Join(w.api.wrong, "\n"))
		}
		pods := w.api.pods()
		if why := w.leftOver(pods); why != "" {
			return why
		}
		now := w.board(pods)
		if why := now.half(excused); why != "" {
			return why
		}
		if why := now.overlooked(excused); why != "" {
			return why
		}
		w.api.caughtUp()
		return ""
	})
}

// explain says what the scheduler knows about those that wait.
func (w *world) explain() string {
	var b strings.Builder
	for _, p := range w.state.plugins {
		p.gangs.Lock()
		for key, c := range p.cooling {
			fmt.Fprintf(&b, "group %s pauses until %v (now %v), step %d: %s; rolled back %v\n", key.Name, c.until, p.clock.Now(), c.steps, c.why, c.rejected)
		}
		for key, list := range p.trials {
			for _, t := range list {
				fmt.Fprintf(&b, "group %s has a dry run that waits for %v: %v\n", key.Name, sets.List(t.members), t.err)
			}
		}
		p.gangs.Unlock()
		p.handle.IterateOverWaitingPods(func(x fwk.WaitingPod) {
			fmt.Fprintf(&b, "pod %s waits in Permit for %v\n", x.GetPod().Name, x.GetPendingPlugins())
		})
	}
	pending, summary := w.engine.SchedulingQueue.PendingPods()
	fmt.Fprintf(&b, "queue: %s", summary)
	w.hearing.Lock()
	for _, p := range pending {
		h := w.heard[p.Name]
		fmt.Fprintf(&b, "\n%s: %d events, the last %s", p.Name, h.count, h.last)
	}
	w.hearing.Unlock()
	w.state.groups.mu.Lock()
	defer w.state.groups.mu.Unlock()
	for key, g := range w.state.groups.byKey {
		fmt.Fprintf(&b, "\ngroup %s: %+v", key.Name, g.core)
		if g.shown != nil {
			fmt.Fprintf(&b, ", minCount %d %v", g.shown.Spec.SchedulingPolicy.Gang.MinCount, g.shown.Annotations)
		}
		if st, err := w.state.plugins[0].handle.PodGroupManager().PodGroupStates().Get(key.Namespace, key.Name); err == nil {
			fmt.Fprintf(&b, "; engine: %d pods, %d scheduled, assumed %v", st.AllPodsCount(), st.ScheduledPodsCount(), sets.List(st.AssumedPods()))
		}
	}
	return b.String()
}

// leftOver is something that the scheduler remembers and that is not there,
// or does not know and that is there.
func (w *world) leftOver(pods []*v1.Pod) string {
	live, bound := sets.New[types.UID](), sets.New[types.UID]()
	for _, p := range pods {
		live.Insert(p.UID)
		if p.Spec.NodeName != "" {
			bound.Insert(p.UID)
		}
	}
	dump := w.engine.Cache.Dump()
	if n := len(dump.AssumedPods); n > 0 {
		return fmt.Sprintf("the engine assumes %d pods: %v", n, sets.List(dump.AssumedPods))
	}
	for name, ni := range dump.Nodes {
		for _, pi := range ni.GetPods() {
			if !bound.Has(pi.GetPod().UID) {
				return fmt.Sprintf("the engine sees pod %s on node %s", pi.GetPod().Name, name)
			}
			bound.Delete(pi.GetPod().UID)
		}
	}
	if len(bound) > 0 {
		return fmt.Sprintf("the engine does not see on nodes: %v", sets.List(bound))
	}
	if why := leftInState(w.state, live); why != "" {
		return why
	}
	if k := w.state.kept.Load(); k != nil && k.holder.pod != "" && !live.Has(k.holder.pod) {
		return fmt.Sprintf("nodes are kept for %s, which is gone", k.holder.name)
	} else if k != nil && k.holder.pod == "" {
		if _, _, ok := w.state.groups.of(k.holder.group); !ok {
			return fmt.Sprintf("nodes are kept for %s, which is gone", k.holder.name)
		}
	}
	return leftInPlugin(w.state, w.api)
}

// leftInState is memory of pods that are gone.
func leftInState(s *State, live sets.Set[types.UID]) string {
	return cmp.Or(leftInRecords(s, live), leftInGroups(s.groups, live))
}

func leftInRecords(s *State, live sets.Set[types.UID]) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for uid, r := range s.records {
		if !live.Has(uid) {
			return fmt.Sprintf("a record of pod %s, which is gone: %s", uid, r.text)
		}
		if r.assumed {
			return fmt.Sprintf("cards held on node %s for pod %s, which is not bound", r.node, uid)
		}
	}
	for uid := range s.asked {
		if !live.Has(uid) {
			return fmt.Sprintf("the request of pod %s, which is gone", uid)
		}
	}
	for uid := range s.wide {
		if !live.Has(uid) {
			return fmt.Sprintf("the mark of pod %s, which is gone", uid)
		}
	}
	return ""
}

func leftInGroups(g *groups, live sets.Set[types.UID]) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid := range g.names {
		if !live.Has(uid) {
			return fmt.Sprintf("the group of pod %s, which is gone", uid)
		}
	}
	for key, x := range g.byKey {
		for uid := range x.pods {
			if !live.Has(uid) {
				return fmt.Sprintf("in group %s pod %s, which is gone", key.Name, uid)
			}
		}
	}
	return ""
}

// leftInPlugin is memory of groups and nodes that are gone.
func leftInPlugin(s *State, api *apiServer) string {
	exists := func(key types.NamespacedName) bool { _, _, ok := s.groups.of(key); return ok }
	for _, p := range s.plugins {
		p.gangs.Lock()
		defer p.gangs.Unlock()
		for key := range p.cooling {
			if !exists(key) {
				return fmt.Sprintf("the pause of group %s, which is gone", key.Name)
			}
		}
		for key := range p.wideGangs {
			if !exists(key) {
				return fmt.Sprintf("the mark of group %s, which is gone", key.Name)
			}
		}
		for key := range p.trials {
			return fmt.Sprintf("a dry run of group %s", key.Name)
		}
	}
	left := ""
	s.views.Range(func(k, _ any) bool {
		if _, err := api.tracker.Get(nodesGVR, "", k.(string)); err != nil {
			left = fmt.Sprintf("the view of node %s, which is gone", k)
		}
		return left == ""
	})
	return left
}

// board is the cluster as its objects show it, for one look.
type board struct {
	w      *world
	nodes  []*v1.Node
	pods   []*v1.Pod // as they were when bound
	views  map[string]*place.View
	held   map[string][]cluster.Hold
	groups map[types.NamespacedName]*schedtest.Group
	kept   *kept
	now    time.Time
}

// adopted is a pod as the engine sees it.
func adopted(p *v1.Pod, key types.NamespacedName) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &key.Name}
	return p
}

func (w *world) board(pods []*v1.Pod) *board {
	b := &board{w: w, nodes: w.api.nodes(), pods: w.api.asBound(pods), views: map[string]*place.View{}, held: map[string][]cluster.Hold{},
		kept: w.state.kept.Load(), now: w.state.plugins[0].clock.Now()}
	b.groups = schedtest.Groups(b.pods, w.api.jobs(), cfg)
	for key, g := range schedtest.Groups(pods, nil, cfg) { // today's labels
		if x := b.groups[key]; x != nil {
			x.Differ = x.Differ || g.Differ || g.Members != x.Members
		}
	}
	for _, p := range b.pods {
		h := kube.HoldOf(p, cfg)
		node := p.Spec.NodeName
		if n := p.Status.NominatedNodeName; node == "" && n != "" {
			// Promised to it, and judged by its own turn.
			if r, bad := kube.RequestOf(p, cfg); len(bad) == 0 && !r.Empty() {
				h, node = &cluster.Hold{UID: string(p.UID), Pod: p.Name, Unplaced: r}, n
			}
		}
		if h != nil {
			b.held[node] = append(b.held[node], *h)
		}
	}
	return b
}

// view is a node with what is held on it, made once.
func (b *board) view(n *v1.Node, but types.UID) *place.View {
	core := kube.NodeOf(n, cfg)
	core.Holds = slices.Clone(b.held[n.Name])
	if but != "" {
		core.Holds = slices.DeleteFunc(core.Holds, func(h cluster.Hold) bool { return h.UID == string(but) })
		return place.NewView(core, cfg)
	}
	v := b.views[n.Name]
	if v == nil {
		v = place.NewView(core, cfg)
		b.views[n.Name] = v
	}
	return v
}

// half names a group of which some are bound and that was never whole.
func (b *board) half(excused func(types.NamespacedName) bool) string {
	for key, g := range b.groups {
		if excused != nil && g.Members+g.Finished < g.Size {
			// Members were lost on the way. Their Job makes others, or the
			// keeper frees the rest; neither is here.
			continue
		}
		if g.Half() && !b.w.api.placed[key] && (excused == nil || !excused(key)) {
			return fmt.Sprintf("group %s is half placed: %+v", key.Name, *g)
		}
	}
	return ""
}

// overlooked names a pod that waits although it fits, alone or with its group
// unless that is excused.
func (b *board) overlooked(excused func(types.NamespacedName) bool) string {
	teams := map[types.NamespacedName][]*v1.Pod{}
	for _, p := range b.pods {
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
			continue
		}
		r, bad := kube.RequestOf(p, cfg)
		if len(bad) > 0 || r.Empty() {
			continue
		}
		if ref := kube.GroupOf(p, cfg); ref != nil {
			key := types.NamespacedName{Namespace: p.Namespace, Name: ref.Name}
			teams[key] = append(teams[key], p)
			continue
		}
		if strayed(p) {
			continue
		}
		but := types.UID("")
		if p.Status.NominatedNodeName != "" {
			but = p.UID
		}
		for _, n := range b.nodes {
			if !b.kept.barred(p, n.Name, b.now) && b.view(n, but).Check(r) == nil {
				return fmt.Sprintf("%s waits and fits on %s", p.Name, n.Name)
			}
		}
	}
	for key, team := range teams {
		if excused != nil && excused(key) {
			continue
		}
		if where := b.fits(key, team); where != "" {
			return fmt.Sprintf("group %s waits and its %d members fit in %s: %+v", key.Name, len(team), where, *b.groups[key])
		}
	}
	return ""
}

// strayed tells whether a pod belongs to a group that its labels name no more.
func strayed(p *v1.Pod) bool {
	_, set := p.Labels[kube.JobSetNameLabel]
	return set
}

// fits finds a network-pod that takes all the waiting members of a group,
// which ask the same, node by node; "" if there is none, or the group has to
// wait for other reasons. It is a witness: not finding one proves nothing.
func (b *board) fits(key types.NamespacedName, team []*v1.Pod) string {
	g := b.groups[key]
	// A member whose request breaks the rules keeps all from being placed, and
	// of members that ask different things this cannot judge.
	if g.Differ || g.Members+g.Finished < g.Size || len(team) != g.Members-g.Bound || !alike(team) {
		return ""
	}
	home := sets.New[string]()
	for _, p := range b.pods {
		if p.Status.NominatedNodeName != "" && p.Spec.NodeName == "" {
			return "" // who goes first is preemption's business
		}
		if ref := kube.GroupOf(p, cfg); ref != nil && ref.Name == key.Name && p.Spec.NodeName != "" {
			home.Insert(b.networkPod(p.Spec.NodeName))
		}
		if _, labelled := p.Labels[cfg.MinMemberLabel()]; !labelled && strayed(p) {
			return "" // its group may be this one
		}
	}
	if home.Has("") || len(home) > 1 {
		return ""
	}
	room := map[string]int{}
	for _, n := range b.nodes {
		at := n.Labels[cfg.Topology.NetworkPod]
		if at == "" || len(home) > 0 && !home.Has(at) {
			continue
		}
		r, _ := kube.RequestOf(team[0], cfg)
		if !b.kept.barred(adopted(team[0], key), n.Name, b.now) {
			room[at] += b.view(n, "").Capacity(r, len(team))
		}
	}
	for at, n := range room {
		if n >= len(team) {
			return at
		}
	}
	return ""
}

// alike tells whether the pods ask the same.
func alike(pods []*v1.Pod) bool {
	first, _ := kube.RequestOf(pods[0], cfg)
	for _, p := range pods[1:] {
		if r, bad := kube.RequestOf(p, cfg); len(bad) > 0 || classKey(r) != classKey(first) {
			return false
		}
	}
	return true
}

func (b *board) networkPod(node string) string {
	for _, n := range b.nodes {
		if n.Name == node {
			return n.Labels[cfg.Topology.NetworkPod]
		}
	}
	return ""
}
