package metrics

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/place"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// fresh is how long a count is good for: several readers at once cost one.
const fresh = time.Second

// Fleet counts the cards of the cluster from the informers' caches. A count
// looks at every node and pod, and works out anew only the nodes on which
// something has changed. It is safe for concurrent use.
type Fleet struct {
	nodes  corelisters.NodeLister
	pods   corelisters.PodLister
	config func() config.Config
	clock  clock.PassiveClock

	mu    sync.Mutex
	set   config.Config
	known map[string]*node
	last  *Count
	at    time.Time
}

// Count is one picture of the fleet. It is not changed after it was made.
type Count struct {
	// Models has the cards by product name.
	Models map[string]place.Census
	// Nodes counts the nodes with cards by their state.
	Nodes map[NodeState]int
	// Foreign are the pods that hold cards of enabled nodes and have no
	// allocation that can be read: which cards they use is a guess. They are
	// sorted by namespace and name.
	Foreign []Foreign
}

// Foreign is a pod that this scheduler did not place.
type Foreign struct {
	Pod *v1.Pod
	Why string // what is wrong with its record
}

// NodeState is whether a node with cards takes pods of ours.
type NodeState string

// The states of nodes.
const (
	NodeOpen       NodeState = "open"       // enabled, readable, ready
	NodeDown       NodeState = "down"       // enabled and readable, but cordoned or not ready
	NodeUnreadable NodeState = "unreadable" // enabled, without an inventory that can be read
	NodeDisabled   NodeState = "disabled"   // has cards and is not enabled
)

// NodeStates lists every NodeState.
func NodeStates() []NodeState { return []NodeState{NodeOpen, NodeDown, NodeUnreadable, NodeDisabled} }

// node is what was last worked out about one node.
type node struct {
	obj     *v1.Node
	pods    map[*v1.Pod]*cluster.Hold // nil: holds nothing
	next    []*v1.Pod                 // of the count under way
	state   NodeState                 // "" for a node without cards
	models  map[string]place.Census
	foreign []Foreign
}

// NewFleet counts what the listers show under the settings that config
// returns. The objects of the listers must not be changed by anybody.
func NewFleet(nodes corelisters.NodeLister, pods corelisters.PodLister, config func() config.Config, c clock.PassiveClock) *Fleet {
	return &Fleet{nodes: nodes, pods: pods, config: config, clock: c, known: map[string]*node{}}
}

// Count returns a picture that is at most a second old.
func (f *Fleet) Count() (*Count, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil && f.clock.Since(f.at) < fresh {
		return f.last, nil
	}
	nodes, err := f.nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	pods, err := f.pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	if set := f.config(); !reflect.DeepEqual(set, f.set) {
		f.set = set
		clear(f.known)
	}
	f.group(nodes, pods)
	out := &Count{Models: map[string]place.Census{}, Nodes: map[NodeState]int{}}
	for _, obj := range nodes {
		n := f.known[obj.Name]
		if n.obj != obj || !n.samePods() {
			n.work(obj, f.set)
		}
		n.next = n.next[:0]
		n.addTo(out)
	}
	slices.SortFunc(out.Foreign, func(a, b Foreign) int {
		return strings.Compare(a.Pod.Namespace+"/"+a.Pod.Name, b.Pod.Namespace+"/"+b.Pod.Name)
	})
	f.last, f.at = out, f.clock.Now()
	return out, nil
}

// group hands the pods to their nodes and forgets nodes that are gone.
func (f *Fleet) group(nodes []*v1.Node, pods []*v1.Pod) {
	if len(f.known) > len(nodes) {
		there := make(map[string]bool, len(nodes))
		for _, n := range nodes {
			there[n.Name] = true
		}
		for name := range f.known {
			if !there[name] {
				delete(f.known, name)
			}
		}
	}
	for _, n := range nodes {
		if f.known[n.Name] == nil {
			f.known[n.Name] = &node{}
		}
	}
	for _, p := range pods {
		if p.Spec.NodeName == "" {
			continue
		}
		if n := f.known[p.Spec.NodeName]; n != nil {
			n.next = append(n.next, p)
		}
	}
}

// samePods tells whether exactly the pods that were counted are there. Objects
// of an informer are never changed, so the same address is the same pod.
func (n *node) samePods() bool {
	if len(n.next) != len(n.pods) {
		return false
	}
	for _, p := range n.next {
		if _, ok := n.pods[p]; !ok {
			return false
		}
	}
	return true
}

// work counts the node anew, reading only the pods that it has not seen.
func (n *node) work(obj *v1.Node, set config.Config) {
	base := kube.NodeOf(obj, set)
	pods := make(map[*v1.Pod]*cluster.Hold, len(n.next))
	n.foreign = nil
	for _, p := range n.next {
		h, seen := n.pods[p]
		if !seen {
			h = kube.HoldOf(p, set)
		}
		pods[p] = h
		if h == nil {
			continue
		}
		base.Holds = append(base.Holds, *h)
		if h.Unplaced != nil && base.Gate == nil {
			n.foreign = append(n.foreign, Foreign{Pod: p, Why: h.Why})
		}
	}
	// The order of an informer's list is that of a map, and cards that are
	// held by guess depend on it.
	slices.SortFunc(base.Holds, func(a, b cluster.Hold) int { return strings.Compare(a.UID, b.UID) })
	n.obj, n.pods, n.state = obj, pods, stateOf(obj, base)
	if n.state == NodeDown {
		base.Gate = &reason.Reason{Code: "node-not-ready"}
	}
	n.models = place.NewView(base, set).CensusByModel()
}

func stateOf(obj *v1.Node, n *cluster.Node) NodeState {
	switch {
	case n.Gate != nil && n.Inventory == nil && n.Gate.Code == "no-gpu-on-node":
		return ""
	case n.Gate != nil:
		return NodeDisabled
	case n.Inventory == nil:
		return NodeUnreadable
	case obj.Spec.Unschedulable || !isReady(obj):
		return NodeDown
	}
	return NodeOpen
}

func isReady(n *v1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	})
}

func (n *node) addTo(out *Count) {
	if n.state != "" {
		out.Nodes[n.state]++
	}
	for model, c := range n.models {
		sum := place.Census{}
		sum.Add(out.Models[model])
		sum.Add(c)
		out.Models[model] = sum
	}
	out.Foreign = append(out.Foreign, n.foreign...)
}
