package sched

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/core/place"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// view is what was last worked out about one node: its cards with what the
// pods hold of them, and the answers to the classes of requests asked since.
//
// It is valid for exactly these pods (the same PodInfo values), this Node
// object, these settings and this revision of the records. NodeInfo's own
// generation will not do: inside a pod-group cycle the engine puts pods in and
// takes them out and restores the generation (snapshot.go, ForgetPod).
type view struct {
	rev atomic.Uint64 // of the records of pods on the node

	mu   sync.Mutex
	node *v1.Node
	base *cluster.Node // of node, without holds
	// published is the inventory that base was read from.
	published string
	set       *settings
	seenRev   uint64
	pods      []fwk.PodInfo
	place     *place.View
	answers   []answer
}

// answer is what a node says to one class.
type answer struct {
	class  *class
	why    []reason.Reason // nil: fits
	rank   int64
	ranked bool
	// room is how many pods of the class fit, counted up to counted.
	room, counted int
}

// maxAnswers bounds the memory of a view; a queue with more kinds of requests
// at once than this is worked out anew each time.
const maxAnswers = 32

// touch says that the record of a pod on the node has changed. A node of which
// nothing was worked out yet, or that is gone, gets no view for that.
func (s *State) touch(node string) {
	if v, ok := s.views.Load(node); ok {
		v.(*view).rev.Add(1)
	}
}

func (s *State) viewOf(node string) *view {
	if v, ok := s.views.Load(node); ok {
		return v.(*view)
	}
	v, _ := s.views.LoadOrStore(node, &view{})
	if s.nodeExists != nil && !s.nodeExists(node) {
		// The engine's snapshot has it still; the end was told before this.
		s.dropNode(node)
	}
	return v.(*view)
}

// dropNode forgets what was worked out about a node that is gone. What its
// pods hold stays known: a node that comes back under the name has them still.
func (s *State) dropNode(name string) { s.views.Delete(name) }

// check tells whether the request fits on the node with the pods that the
// engine shows there: nil, or the reasons, most important first.
func (s *State) check(c *cycle, ni fwk.NodeInfo) []reason.Reason {
	v := s.viewOf(ni.Node().Name)
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.answer(s, c, ni).why
}

// rank compares nodes that fit (place.View.Rank).
func (s *State) rank(c *cycle, ni fwk.NodeInfo) int64 {
	v := s.viewOf(ni.Node().Name)
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.answer(s, c, ni)
	if !a.ranked {
		a.rank, a.ranked = v.place.Rank(c.req), true
	}
	return a.rank
}

// capacity is how many pods of the class fit beside the pods that the engine
// shows on the node and the promised ones, counted up to limit.
func (s *State) capacity(c *cycle, ni fwk.NodeInfo, limit int, promised []*v1.Pod) int {
	v := s.viewOf(ni.Node().Name)
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.answer(s, c, ni)
	switch {
	case a.why != nil:
		return 0
	case len(promised) > 0:
		return s.beside(v, ni, promised).Capacity(c.req, limit)
	case a.counted < limit:
		a.room, a.counted = v.place.Capacity(c.req, limit), limit
	}
	return min(a.room, limit)
}

// placeOf is where the node stands in the network.
func (s *State) placeOf(set *settings, ni fwk.NodeInfo) gang.Place {
	v := s.viewOf(ni.Node().Name)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refresh(s, set, ni)
	return gang.Place{HyperNode: v.base.HyperNode, Leaf: v.base.Leaf, NetworkPod: v.base.NetworkPod}
}

// beside is the node with more pods. The caller holds mu of the view, which is
// that of this NodeInfo.
func (s *State) beside(v *view, ni fwk.NodeInfo, more []*v1.Pod) *place.View {
	n := *v.base
	n.Holds, _ = s.holdsOf(ni, nil)
	for _, p := range more {
		if h, _ := s.holdOf(p, n.Name); h != nil {
			n.Holds = append(n.Holds, *h)
		}
	}
	return place.NewView(&n, v.set.Config)
}

// answer returns the node's answer to the class of the request, from memory or
// worked out. The pointer is valid until the next call. The caller holds mu.
func (v *view) answer(s *State, c *cycle, ni fwk.NodeInfo) *answer {
	v.refresh(s, c.set, ni)
	for i := range v.answers {
		if v.answers[i].class == c.class {
			return &v.answers[i]
		}
	}
	if len(v.answers) >= maxAnswers {
		v.answers = v.answers[:0]
	}
	v.answers = append(v.answers, answer{class: c.class, why: v.place.Check(c.req)})
	return &v.answers[len(v.answers)-1]
}

// refresh makes the view that of this NodeInfo. The caller holds mu.
func (v *view) refresh(s *State, set *settings, ni fwk.NodeInfo) {
	node, pods, rev := ni.Node(), ni.GetPods(), v.rev.Load()
	if v.place != nil && v.node == node && v.set == set && v.seenRev == rev && slices.Equal(v.pods, pods) {
		return
	}
	if v.base == nil || v.set != set || !sameCards(v.node, node, set.Config) {
		v.base, v.published = kube.NodeIn(node, set.Config, set.network), node.Annotations[kube.InventoryAnnotation]
	}
	holds, complete := s.holdsOf(ni, nil)
	n := *v.base
	n.Holds = holds
	v.node, v.set, v.seenRev = node, set, rev
	v.place, v.answers = place.NewView(&n, set.Config), v.answers[:0]
	v.pods = append(v.pods[:0], pods...)
	if !complete {
		// What a nominated pod asks became known or will: do not keep this.
		v.node = nil
	}
}

// holdsOf lists what the pods shown on the node hold, without those in the
// set. complete is false if one of them is not known to the core.
func (s *State) holdsOf(ni fwk.NodeInfo, but map[types.UID]bool) (holds []cluster.Hold, complete bool) {
	complete = true
	for _, pi := range ni.GetPods() {
		pod := pi.GetPod()
		if but[pod.UID] {
			continue
		}
		h, known := s.holdOf(pod, ni.Node().Name)
		complete = complete && known
		if h != nil {
			holds = append(holds, *h)
		}
	}
	return holds, complete
}

// sameCards tells whether the two versions of a node are the same to the
// core, so that the inventory is parsed once per text. A kubelet writes the
// node's status every few minutes without any change of these.
func sameCards(a, b *v1.Node, c config.Config) bool {
	if a == nil {
		return false
	}
	if a == b {
		return true
	}
	if a.Name != b.Name || a.Annotations[kube.InventoryAnnotation] != b.Annotations[kube.InventoryAnnotation] ||
		!maps.Equal(a.Labels, b.Labels) {
		return false
	}
	if _, x := a.Annotations[kube.EnableLabel]; x != hasKey(b.Annotations, kube.EnableLabel) {
		return false
	}
	return sameAmounts(a.Status.Allocatable, b.Status.Allocatable, c) && sameAmounts(a.Status.Capacity, b.Status.Capacity, c)
}

func hasKey(m map[string]string, k string) bool { _, ok := m[k]; return ok }

func sameAmounts(a, b v1.ResourceList, c config.Config) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		if r, ok := b[name]; !ok || c.IsResource(string(name)) && q.Cmp(r) != 0 {
			return false
		}
	}
	return true
}

// fit chooses the cards for a pod on a node. The engine may show the pod
// itself there already (it is put in before Reserve inside a pod-group cycle)
// and, with more set, may not show pods yet that this process has placed there
// since the snapshot was taken.
func (s *State) fit(c *cycle, ni fwk.NodeInfo, pod types.UID, more bool) (*place.Offer, []reason.Reason) {
	v := s.viewOf(ni.Node().Name)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refresh(s, c.set, ni)
	shown := map[types.UID]bool{}
	for _, pi := range ni.GetPods() {
		shown[pi.GetPod().UID] = true
	}
	var extra []*cluster.Hold
	if more {
		self := shown[pod]
		shown[pod] = true
		extra = s.assumedOn(v.base.Name, shown)
		shown[pod] = self
	}
	if !shown[pod] && len(extra) == 0 {
		return v.place.Fit(c.req)
	}
	n := *v.base
	n.Holds, _ = s.holdsOf(ni, map[types.UID]bool{pod: true})
	for _, h := range extra {
		n.Holds = append(n.Holds, *h)
	}
	return place.NewView(&n, c.set.Config).Fit(c.req)
}

// frees tells whether a pod of lower priority holds a card of the node.
func (s *State) frees(ni fwk.NodeInfo, priority int32) bool {
	for _, pi := range ni.GetPods() {
		if pod := pi.GetPod(); v1helper.PodPriority(pod) < priority {
			if h, _ := s.holdOf(pod, ni.Node().Name); h != nil {
				return true
			}
		}
	}
	return false
}

// evict chooses whom of the line to evict so that n pods of the class have
// cards on the node, beside the promised ones (place.View.Evict).
func (s *State) evict(c *cycle, ni fwk.NodeInfo, n int, l *line, promised []*v1.Pod) (chosen []int, ok bool) {
	v := s.viewOf(ni.Node().Name)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refresh(s, c.set, ni)
	at := v.place
	if len(promised) > 0 {
		at = s.beside(v, ni, promised)
	}
	return at.Evict(c.req, n, l.victims, l.allowed)
}

// summary says for people what an offer on a node gives.
func (s *State) summary(o *place.Offer, node string) string {
	v := s.viewOf(node)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.base == nil || v.base.Inventory == nil {
		return ""
	}
	return o.Summary(v.base.Inventory)
}

// inventory is what a node publishes, empty if nothing that can be read.
func (s *State) inventory(n *v1.Node) *device.Inventory {
	set := s.settings.Load()
	v := s.viewOf(n.Name)
	v.mu.Lock()
	base := v.base
	same := base != nil && v.set == set && v.published == n.Annotations[kube.InventoryAnnotation]
	v.mu.Unlock()
	if !same {
		base = kube.NodeIn(n, set.Config, set.network)
	}
	if base.Inventory == nil {
		return &device.Inventory{}
	}
	return base.Inventory
}
