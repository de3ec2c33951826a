package sched

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"lj.aliyun.com/kit/pkg/core/place"
)

// line is who may be evicted, most important first, as the engine and as the
// core see them.
type line struct {
	units   []*preemption.DomainVictim
	victims []place.Victim
	allowed []int
	now     time.Time // when it was made
}

// lineUp takes of the units those of lower priority. On the node are the cards
// that count.
func (p *Preemption) lineUp(units []*preemption.DomainVictim, node string, priority int32, budgets []budget) *line {
	l := &line{now: p.devices().clock.Now()}
	for _, u := range units {
		if u.Priority() < priority {
			l.units = append(l.units, u)
		}
	}
	slices.SortStableFunc(l.units, func(a, b *preemption.DomainVictim) int {
		switch {
		case p.MoreImportantVictim(a, b):
			return -1
		case p.MoreImportantVictim(b, a):
			return 1
		}
		return strings.Compare(a.Pods()[0].GetPod().Name, b.Pods()[0].GetPod().Name)
	})
	at := map[int]int{} // of budgets, in allowed
	for _, u := range l.units {
		x := place.Victim{Size: len(u.Pods()), Priority: u.Priority(), Leaving: true}
		for _, pi := range u.Pods() {
			pod := pi.GetPod()
			x.Leaving = x.Leaving && leaving(pod, l.now)
			if pod.Spec.NodeName == node {
				x.Pods = append(x.Pods, string(pod.UID))
			}
			for i := range budgets {
				if !budgets[i].covers(pod) {
					continue
				}
				if _, known := at[i]; !known {
					at[i] = len(l.allowed)
					l.allowed = append(l.allowed, int(budgets[i].Status.DisruptionsAllowed))
				}
				x.Budgets = append(x.Budgets, at[i])
			}
		}
		l.victims = append(l.victims, x)
	}
	return l
}

// soon is in which time a pod that is being deleted should be gone. One that
// takes longer, or should be gone long since, is evicted like any other.
const soon = time.Minute

func leaving(pod *v1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionTimestamp.Sub(now).Abs() < soon
}

// ranks orders the units for the in-tree way, which puts them back in this
// order: the chosen last; of the others those first that break a budget.
func (l *line) ranks(chosen []int, pdbs []*policy.PodDisruptionBudget) map[preemption.Victim]int {
	var spared, gone []*preemption.DomainVictim
	for i, u := range l.units {
		if slices.Contains(chosen, i) {
			gone = append(gone, u)
		} else {
			spared = append(spared, u)
		}
	}
	violating, rest := preemption.FilterVictimsWithPDBViolation(spared, pdbs)
	rank := map[preemption.Victim]int{}
	for _, v := range violating {
		rank[v.Victim] = len(rank)
	}
	for _, u := range append(rest, gone...) {
		rank[u] = len(rank)
	}
	return rank
}

// violations is how often the eviction of the pods breaks a budget.
func (l *line) violations(pods []*v1.Pod) int {
	gone := map[types.UID]bool{}
	for _, p := range pods {
		gone[p.UID] = true
	}
	var evicted []place.Victim
	for i, u := range l.units {
		if gone[u.Pods()[0].GetPod().UID] {
			evicted = append(evicted, l.victims[i])
		}
	}
	return int(place.PriceOf(evicted, l.allowed).Violations)
}

// budget is a disruption budget with its selector read.
type budget struct {
	*policy.PodDisruptionBudget
	pods labels.Selector
}

func budgetsOf(pdbs []*policy.PodDisruptionBudget) []budget {
	var out []budget
	for _, b := range pdbs {
		// As in-tree: one that cannot be read, or is empty, covers nobody.
		if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && !s.Empty() {
			out = append(out, budget{b, s})
		}
	}
	return out
}

// covers tells whether the eviction of the pod counts against the budget.
func (b *budget) covers(pod *v1.Pod) bool {
	if b.Namespace != pod.Namespace || !b.pods.Matches(labels.Set(pod.Labels)) {
		return false
	}
	_, counted := b.Status.DisruptedPods[pod.Name]
	return !counted
}

// cost is what making room on a node costs.
type cost struct {
	node   string
	price  place.Price
	groups int
	// start is when the first of the most important victims started.
	start int64
}

func (l *line) cost(chosen []int, node string) *cost {
	k := &cost{node: node, start: math.MaxInt64}
	var evicted []place.Victim
	for _, i := range chosen {
		u := l.units[i]
		evicted = append(evicted, l.victims[i])
		if u.IsGroup() {
			k.groups++
		}
		if u.Priority() == l.units[chosen[0]].Priority() {
			k.start = min(k.start, startOf(u.EarliestStartTime(), l.now))
		}
	}
	k.price = place.PriceOf(evicted, l.allowed)
	return k
}

// startOf is a start in seconds. The engine takes a pod that has not started for
// one that starts now; those are all alike.
func startOf(t *metav1.Time, now time.Time) int64 {
	if t.After(now) {
		return math.MaxInt64
	}
	return t.Unix()
}

// costOf is the cost of what the engine has found.
func costOf(node string, v *extenderv1.Victims, now time.Time) *cost {
	k := &cost{node: node, start: startOf(util.GetEarliestPodStartTime(v), now)}
	groups := sets.New[string]()
	evicted := make([]place.Victim, len(v.Pods))
	for i, pod := range v.Pods {
		evicted[i] = place.Victim{Size: 1, Priority: v1helper.PodPriority(pod), Leaving: leaving(pod, now)}
		if g := pod.Spec.SchedulingGroup; g != nil {
			groups.Insert(pod.Namespace + "/" + *g.PodGroupName)
		}
	}
	k.price, k.groups = place.PriceOf(evicted, nil), groups.Len()
	k.price.Violations = v.NumPDBViolations
	return k
}

// compare puts the lower cost first, of equal ones the fewer groups, those who
// have run the shortest, the first node by name.
func (k *cost) compare(o *cost) int {
	return cmp.Or(k.price.Compare(o.price), cmp.Compare(k.groups, o.groups), -cmp.Compare(k.start, o.start),
		strings.Compare(k.node, o.node))
}
