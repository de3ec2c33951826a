package whypending

import (
	"context"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched/offline"
)

// Picture is a snapshot made ready for questions. It is not safe for
// concurrent use.
type Picture struct {
	s      *kube.Snapshot
	cfg    config.Config
	now    time.Time
	origin kube.Origin

	cards  map[string]*cluster.Node
	nodes  map[string]*v1.Node
	onNode map[string][]*v1.Pod
	pods   map[string]*v1.Pod        // by namespace/name
	owned  map[types.UID][]*v1.Pod   // by controller
	events map[string][]*v1.Event    // by kind/namespace/name, oldest first
	owners map[types.UID]*controller // jobs, replica sets, … by uid

	engine *offline.Engine
	later  *offline.Engine // on the picture without pods that end by themselves
	idle   *offline.Engine // on the picture without pods
}

// New makes a picture. now is the time of the question; a snapshot that tells
// when it was taken is judged by that time instead.
func New(s *kube.Snapshot, cfg config.Config, now time.Time) *Picture {
	if !s.Taken.IsZero() {
		now = s.Taken
	}
	p := &Picture{s: s, cfg: cfg, now: now,
		cards: map[string]*cluster.Node{}, nodes: map[string]*v1.Node{}, onNode: map[string][]*v1.Pod{},
		pods: map[string]*v1.Pod{}, owned: map[types.UID][]*v1.Pod{}, events: map[string][]*v1.Event{},
	}
	for _, n := range s.Cluster(cfg) {
		p.cards[n.Name] = n
	}
	for _, n := range s.Nodes {
		p.nodes[n.Name] = n
	}
	for _, pod := range s.Pods {
		p.pods[key(pod)] = pod
		if pod.Spec.NodeName != "" {
			p.onNode[pod.Spec.NodeName] = append(p.onNode[pod.Spec.NodeName], pod)
		}
		if ref := metav1.GetControllerOf(pod); ref != nil {
			p.owned[ref.UID] = append(p.owned[ref.UID], pod)
		}
	}
	for _, e := range s.Events {
		k := eventKey(e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name)
		p.events[k] = append(p.events[k], e)
	}
	p.owners = controllers(s)
	return p
}

// Close ends the engines, if a question needed them.
func (p *Picture) Close() {
	for _, e := range []*offline.Engine{p.engine, p.later, p.idle} {
		if e != nil {
			e.Close()
		}
	}
}

// scheduler is the engine on the picture, built at the first question that
// gets as far as nodes.
func (p *Picture) scheduler(ctx context.Context) (*offline.Engine, error) {
	if p.engine == nil {
		e, err := offline.New(ctx, p.s, p.cfg)
		if err != nil {
			return nil, err
		}
		p.engine = e
	}
	return p.engine, nil
}

// without is the engine on the picture as if some of the bound pods were not
// there; it is built once, at.
func (p *Picture) without(ctx context.Context, at **offline.Engine, gone func(*v1.Pod) bool) (*offline.Engine, error) {
	if *at == nil {
		s := *p.s
		s.Pods = slices.DeleteFunc(slices.Clone(p.s.Pods), func(pod *v1.Pod) bool { return pod.Spec.NodeName == "" || gone(pod) })
		e, err := offline.New(ctx, &s, p.cfg)
		if err != nil {
			return nil, err
		}
		*at = e
	}
	return *at, nil
}

func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

func eventKey(kind, ns, name string) string {
	return strings.ToLower(kind) + "/" + ns + "/" + name
}

// lastEvent is the newest event of an object with one of the reasons, nil if
// there is none.
func (p *Picture) lastEvent(kind, ns, name string, reasons ...string) *v1.Event {
	var last *v1.Event
	for _, e := range p.events[eventKey(kind, ns, name)] {
		for _, r := range reasons {
			if e.Reason == r && (last == nil || eventTime(e).After(eventTime(last))) {
				last = e
			}
		}
	}
	return last
}

// eventTime is when an event was last seen: three fields, by the event's age
// and API.
func eventTime(e *v1.Event) time.Time {
	t := e.LastTimestamp.Time
	if e.Series != nil && e.Series.LastObservedTime.After(t) {
		t = e.Series.LastObservedTime.Time
	}
	if e.EventTime.After(t) {
		t = e.EventTime.Time
	}
	if t.IsZero() {
		t = e.CreationTimestamp.Time
	}
	return t
}

func eventCount(e *v1.Event) int32 {
	n := max(e.Count, 1)
	if e.Series != nil {
		n = max(n, e.Series.Count)
	}
	return n
}

// age is how long ago something was, never negative: clocks differ.
func (p *Picture) age(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(0, p.now.Sub(t))
}
