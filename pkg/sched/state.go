package sched

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/netplace"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched/decisionlog"
)

// State is what the plugin remembers: the cluster's settings, and for each pod
// which cards it holds. It never says what is free. It is safe for concurrent
// use: the engine reserves and filters in its loop, un-reserves from binding
// goroutines, and informers report at any time.
type State struct {
	settings atomic.Pointer[settings]
	// candidates is how many nodes a pod with cards is tried on before all.
	candidates atomic.Int64
	fence      atomic.Pointer[func() error]
	groups     *groups
	kept       reservation
	decisions  atomic.Pointer[decisionlog.Log]
	setMu      sync.Mutex // between reading and storing settings
	args       Args       // guarded by setMu
	// exists tells whether a pod of the uid is on the API, nodeExists whether
	// a node is; nil: nobody knows.
	exists     func(types.UID) bool
	nodeExists func(string) bool

	mu      sync.RWMutex
	records map[types.UID]*record
	assumed map[string]map[types.UID]*record // of records, by node: the assumed
	asked   map[types.UID]*request.Request   // of pods that wait, for nominations
	wide    map[types.UID]struct{}
	classes map[string]*class
	plugins []*Plugin

	views sync.Map // node name → *view
}

// settings is one version of the configuration and of the network's HyperNodes,
// nil for none; its address is its identity.
type settings struct {
	config.Config
	network *netplace.Tree
}

// record is what one pod holds on one node. It is immutable once stored.
type record struct {
	node string
	hold *cluster.Hold // nil: nothing
	// text is the allocation as annotation; "" if the pod has none.
	text  string
	alloc *device.Allocation
	// summary says for people what the pod was given by this process.
	summary string
	// assumed: given by Reserve in this process and not yet seen on the API.
	assumed bool
	// by has the settings under which a pod without allocation was read; nil
	// where the allocation speaks, which does not depend on settings, or where
	// this process has bound the pod without cards. Such a record is final: a
	// binding writes it together with the node's name, once.
	by *settings
}

// final tells whether what pods say of themselves changes nothing any more.
func (r *record) final() bool { return r != nil && !r.assumed && r.by == nil }

// class joins pods whose requests differ in names only: an answer for one on
// a node is the answer for all.
type class struct{ key string }

// maxClasses bounds the memory for classes against pods that are all unlike.
const maxClasses = 4096

// NewState returns a State without pods. Pods on the nodes need not be told to
// it: what they hold is read from their annotations when the engine shows
// them.
func NewState(c config.Config) *State {
	s := &State{
		records: map[types.UID]*record{}, assumed: map[string]map[types.UID]*record{}, asked: map[types.UID]*request.Request{},
		wide: map[types.UID]struct{}{}, classes: map[string]*class{},
	}
	s.settings.Store(&settings{Config: c})
	s.groups = newGroups(s.Config)
	s.groups.counted = s.groupChanged
	return s
}

// Config is the configuration in force.
func (s *State) Config() config.Config { return s.settings.Load().Config }

// SetConfig changes the configuration for all cycles that begin from now on,
// and tells whether it differs from what was in force. Pods that wait are not
// woken: Retry does that.
func (s *State) SetConfig(c config.Config) bool {
	s.setMu.Lock()
	defer s.setMu.Unlock()
	now := s.settings.Load()
	c = s.args.over(c)
	if reflect.DeepEqual(now.Config, c) {
		return false
	}
	s.settings.Store(&settings{c, now.network})
	return true
}

// SetNetwork changes where nodes stand in the network, for all cycles that
// begin from now on; nil leaves it to the nodes' labels. Pods that wait are
// not woken: Retry does that.
func (s *State) SetNetwork(network *netplace.Tree) {
	s.setMu.Lock()
	defer s.setMu.Unlock()
	s.settings.Store(&settings{s.Config(), network})
}

// Retry tries all waiting pods again, after a change that no event of the
// cluster tells the engine: new settings.
func (s *State) Retry(logger klog.Logger) {
	for _, p := range s.users() {
		p.retry(logger)
	}
}

// users are the plugins that work with this State.
func (s *State) users() []*Plugin {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.plugins)
}

func (s *State) attach(p *Plugin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plugins = append(s.plugins, p)
}

// NarrowTo lets a pod with cards be tried on the n best nodes for its cards
// first, and on all if those refuse it for other reasons; 0, the default, is
// always all. It needs the engine's queue for the second try, so it is for the
// live scheduler and not for single calls of SchedulePod.
func (s *State) NarrowTo(n int) { s.candidates.Store(int64(n)) }

// Fence has each binding ask first whether this process may still write. A
// scheduler that has lost its lease without knowing would give cards away that
// its successor has given.
func (s *State) Fence(may func() error) { s.fence.Store(&may) }

// LogTo writes each decision to the log. Without one, as in what-if questions,
// none is written.
func (s *State) LogTo(l *decisionlog.Log) { s.decisions.Store(l) }

// mayBind asks the fence.
func (s *State) mayBind() error {
	if f := s.fence.Load(); f != nil {
		return (*f)()
	}
	return nil
}

// AllocationOf is what a pod was given, in this process or as its annotation
// says, and on which node; nil if it has nothing.
func (s *State) AllocationOf(uid types.UID) (*device.Allocation, string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if r := s.records[uid]; r != nil && r.alloc != nil {
		return r.alloc, r.node
	}
	return nil, ""
}

// Summary says in one line what a pod was given by this process, "" if nothing.
func (s *State) Summary(uid types.UID) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := s.records[uid]
	if r == nil {
		return ""
	}
	if r.alloc != nil && r.alloc.Gang != nil && r.alloc.Gang.Tier != "" {
		return r.summary + fmt.Sprintf("; its group of %d is within one %s", r.alloc.Gang.Size, r.alloc.Gang.Tier)
	}
	return r.summary
}

// store replaces what is known of a pod on a node.
func (s *State) store(uid types.UID, r *record) {
	s.mu.Lock()
	s.set(uid, r)
	s.mu.Unlock()
	s.touch(r.node)
}

// set replaces the record of a pod; nil drops it. The caller holds mu.
func (s *State) set(uid types.UID, r *record) {
	if old := s.records[uid]; old != nil && old.assumed {
		delete(s.assumed[old.node], uid)
		if len(s.assumed[old.node]) == 0 {
			delete(s.assumed, old.node)
		}
	}
	if r == nil {
		delete(s.records, uid)
		return
	}
	s.records[uid] = r
	if r.assumed {
		if s.assumed[r.node] == nil {
			s.assumed[r.node] = map[types.UID]*record{}
		}
		s.assumed[r.node][uid] = r
	}
}

// release forgets what Reserve gave, unless the API server has confirmed it:
// a binding whose answer was lost may have been written all the same.
func (s *State) release(uid types.UID, node string) bool {
	s.mu.Lock()
	r := s.records[uid]
	ours := r != nil && r.assumed && r.node == node
	if ours {
		s.set(uid, nil)
	}
	s.mu.Unlock()
	if ours {
		s.touch(node)
	}
	return ours
}

// observe takes a pod as the API server shows it. The first allocation that is
// seen on a bound pod holds: one that was edited later says what its editor
// wishes, not which cards the containers run on. A bound pod that merely lacks
// the annotation changes nothing: what Reserve gave stays.
func (s *State) observe(pod *v1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	s.releaseKept(holder{pod: pod.UID})
	text, ok := pod.Annotations[kube.AllocationAnnotation]
	s.mu.Lock()
	delete(s.asked, pod.UID)
	delete(s.wide, pod.UID)
	old := s.records[pod.UID]
	s.mu.Unlock()
	if !ok || old.final() {
		return
	}
	if old != nil && old.assumed && old.node == pod.Spec.NodeName && old.text == text {
		confirmed := *old
		confirmed.assumed = false
		s.store(pod.UID, &confirmed)
		return
	}
	r := s.read(pod)
	if r.alloc == nil {
		// Unreadable: the pod keeps what this process knows of it, and is
		// judged by its request otherwise.
		return
	}
	s.store(pod.UID, r)
}

// edited tells whether the allocation of a bound pod is no longer the one that
// it holds.
func (s *State) edited(pod *v1.Pod) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := s.records[pod.UID]
	return r.final() && r.text != pod.Annotations[kube.AllocationAnnotation]
}

// unlessGone forgets a pod about which something was just noted, if it is gone.
// The engine works on pods that the informer may have dropped meanwhile, and
// whose end was told here before the note.
func (s *State) unlessGone(uid types.UID) {
	if s.exists != nil && !s.exists(uid) {
		s.forget(uid)
	}
}

// forget drops a pod that is gone or has ended.
func (s *State) forget(uid types.UID) {
	s.decisions.Load().Forget(uid)
	s.releaseKept(holder{pod: uid})
	s.mu.Lock()
	r := s.records[uid]
	s.set(uid, nil)
	delete(s.asked, uid)
	delete(s.wide, uid)
	s.mu.Unlock()
	if r != nil {
		s.touch(r.node)
	}
}

// read makes the record of a bound pod from the pod alone.
func (s *State) read(pod *v1.Pod) *record {
	set := s.settings.Load()
	r := &record{node: pod.Spec.NodeName, hold: kube.HoldOf(pod, set.Config), text: pod.Annotations[kube.AllocationAnnotation], by: set}
	if r.hold != nil && r.hold.Unplaced == nil {
		r.alloc, _ = kube.AllocationOf(pod)
		r.by = nil
	}
	return r
}

// holdOf is what a pod that the engine shows on a node holds there. known is
// false for a pod that was nominated and about which nothing is known: the
// engine gives an empty pod then.
func (s *State) holdOf(pod *v1.Pod, node string) (h *cluster.Hold, known bool) {
	text := pod.Annotations[kube.AllocationAnnotation]
	s.mu.RLock()
	r, asked := s.records[pod.UID], s.asked[pod.UID]
	s.mu.RUnlock()
	if r != nil && r.node == node {
		if r.assumed || r.by == nil || r.text == text && r.by == s.settings.Load() {
			return r.hold, true
		}
	}
	if pod.Spec.NodeName == node {
		r = s.read(pod)
		if r.hold == nil {
			return nil, true // most pods: nothing worth remembering
		}
		s.mu.Lock()
		if now := s.records[pod.UID]; now == nil || !now.assumed && !now.final() {
			s.set(pod.UID, r)
		}
		s.mu.Unlock()
		s.unlessGone(pod.UID)
		return r.hold, true
	}
	if asked == nil {
		var bad []reason.Reason
		if asked, bad = kube.RequestOf(pod, s.Config()); len(bad) > 0 || asked.Empty() {
			return nil, len(pod.Spec.Containers) > 0
		}
	}
	return &cluster.Hold{UID: string(pod.UID), Pod: pod.Namespace + "/" + pod.Name, Unplaced: asked, Why: "nominated to the node"}, true
}

// assumedOn lists what Reserve gave on a node to pods that the API server has
// not confirmed, but for those in the set.
func (s *State) assumedOn(node string, but map[types.UID]bool) []*cluster.Hold {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*cluster.Hold
	for uid, r := range s.assumed[node] {
		if r.hold != nil && !but[uid] {
			out = append(out, r.hold)
		}
	}
	return out
}

func (s *State) setAsked(uid types.UID, r *request.Request) {
	s.mu.Lock()
	s.asked[uid] = r
	s.mu.Unlock()
	s.unlessGone(uid)
}

func (s *State) setWide(uid types.UID) {
	s.mu.Lock()
	s.wide[uid] = struct{}{}
	s.mu.Unlock()
	s.unlessGone(uid)
}

func (s *State) isWide(uid types.UID) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.wide[uid]
	return ok
}
