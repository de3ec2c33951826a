package sched

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/core/place"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// Where a group goes is decided before the engine simulates it: from what each
// node can take, the nearest part of the network that holds the group
// (gang.Domains), and in it a node for each member (gang.Fill). The engine then
// simulates exactly that, with every filter, so that a group of n costs n
// nodes and not n times all.
//
// What such a plan cannot see (affinity between pods, spread, ports, volumes)
// would make it fail where another would do. For pods that use those, and for
// a group whose plan has failed, the engine gets whole domains and chooses
// nodes itself.

// maxDomains is how many domains the engine simulates for one group when it
// chooses nodes itself. Each costs a simulation.
const maxDomains = 4

// planKey is where the plan lies in the state of the group's cycle.
const planKey = Name + "/plan"

// plan is what GeneratePlacements has decided for one cycle of a group.
type plan struct {
	// nodes has the node of each member; nil leaves them to the engine.
	nodes map[types.UID]string
	// tiers has the tier of each placement by its name.
	tiers map[string]gang.Tier
}

// Clone implements fwk.StateData.
func (p *plan) Clone() fwk.StateData { return p }

// planOf finds the plan of the group's cycle in which a pod is simulated.
func planOf(cs fwk.CycleState) *plan {
	if !cs.IsPodGroupSchedulingCycle() {
		return nil
	}
	return planIn(cs.GetPodGroupSchedulingCycle())
}

// planIn finds the plan in the state of a group's cycle, nil if none was made.
func planIn(cs fwk.PodGroupCycleState) *plan {
	d, err := cs.Read(planKey)
	if err != nil {
		return nil
	}
	p, _ := d.(*plan)
	return p
}

// gangMark is what the record of a member says about its group; nil for a pod
// that is in none of ours.
func (p *Plugin) gangMark(cs fwk.CycleState, pod *v1.Pod) *device.GangMark {
	key, ok := keyOf(pod)
	if !ok {
		return nil
	}
	g, _, ok := p.state.groups.of(key)
	if !ok {
		return nil
	}
	mark := &device.GangMark{ID: key.Name, Size: g.Size, Round: p.round(key)}
	if plan := planOf(cs); plan != nil && g.Members > 1 {
		if s, ok := p.handle.SnapshotSharedLister().(interface{ GetPlacement() *fwk.Placement }); ok && s.GetPlacement() != nil {
			if tier, ok := plan.tiers[s.GetPlacement().Name]; ok {
				mark.Tier = tier.String()
			}
		} else if len(plan.tiers) == 1 { // all nodes of the cluster are in the placement
			for _, tier := range plan.tiers {
				mark.Tier = tier.String()
			}
		}
	}
	return mark
}

// round counts the commits of a group in this process, from 1.
func (p *Plugin) round(key types.NamespacedName) int {
	p.gangs.Lock()
	defer p.gangs.Unlock()
	if c := p.cooling[key]; c != nil {
		return c.steps + 1
	}
	return 1
}

// GeneratePlacements decides where a group can go.
func (p *Plugin) GeneratePlacements(ctx context.Context, cs fwk.PodGroupCycleState, pg fwk.PodGroupInfo, parent *fwk.Placement) (*fwk.GeneratePlacementsResult, *fwk.Status) {
	t, bad := p.newTeam(pg)
	if len(bad) > 0 {
		if pods := pg.GetUnscheduledPods(); len(pods) > 0 {
			p.refused(ctx, pods[0], "", bad)
		}
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, refusal(bad))
	}
	if t == nil {
		return &fwk.GeneratePlacementsResult{Placements: []*fwk.Placement{parent}}, nil
	}
	site := t.survey(parent.Nodes)
	found := gang.Domains(site.rooms, t.need, len(t.pods))
	if len(found) == 0 {
		return nil, t.refuse(ctx, cs, site, t.need)
	}
	key := types.NamespacedName{Namespace: pg.GetNamespace(), Name: pg.GetName()}
	if t.plain && !p.unplanned(key) && !leftToEngine(cs) {
		most := 0
		for _, d := range found {
			nodes, ok := t.layOut(site, d)
			most = max(most, len(nodes))
			if ok {
				name := placementName(d)
				cs.Write(planKey, &plan{nodes: nodes, tiers: map[string]gang.Tier{name: d.Tier}})
				return &fwk.GeneratePlacementsResult{Placements: []*fwk.Placement{{Name: name, Nodes: site.named(nodes)}}}, nil
			}
		}
		return nil, t.refuse(ctx, cs, site, most)
	}
	out := &plan{tiers: map[string]gang.Tier{}}
	var placements []*fwk.Placement
	for rank, d := range found[:min(maxDomains, len(found))] {
		name := strconv.Itoa(rank) + " " + placementName(d)
		out.tiers[name] = d.Tier
		placements = append(placements, &fwk.Placement{Name: name, Nodes: site.of(d)})
	}
	cs.Write(planKey, out)
	return &fwk.GeneratePlacementsResult{Placements: placements}, nil
}

func placementName(d gang.Domain) string { return d.Tier.String() + " " + d.Name }

// ScorePlacement keeps the order in which the placements were made.
func (p *Plugin) ScorePlacement(_ context.Context, _ fwk.PlacementCycleState, _ fwk.PodGroupInfo, a *fwk.PodGroupAssignments) (int64, *fwk.Status) {
	rank, _, _ := strings.Cut(a.Placement.Name, " ")
	n, err := strconv.Atoi(rank)
	if err != nil || n >= maxDomains {
		return 0, nil
	}
	return int64(maxDomains-n) * fwk.MaxScore / maxDomains, nil
}

// PlacementScoreExtensions implements fwk.PlacementScorePlugin.
func (p *Plugin) PlacementScoreExtensions() fwk.PlacementScoreExtensions { return nil }

// PodGroupPostFilter comes when no placement took the group. A plan that has
// failed although the nodes have room met something that it does not see; the
// engine chooses nodes itself next, before anybody is evicted.
func (p *Plugin) PodGroupPostFilter(_ context.Context, cs fwk.PodGroupCycleState, pg fwk.PodGroupInfo, _ fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	made := planIn(cs)
	if made == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	key := types.NamespacedName{Namespace: pg.GetNamespace(), Name: pg.GetName()}
	planned := made.nodes != nil
	p.gangs.Lock()
	if planned {
		p.wideGangs[key] = true
	} else {
		delete(p.wideGangs, key) // next time, a plan may do again
	}
	p.gangs.Unlock()
	if !planned {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	p.unlessGroupGone(key)
	p.clock.AfterFunc(0, func() { p.wake(key) })
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the best nodes for the group's cards refuse it, trying the others")
}

func (p *Plugin) unplanned(key types.NamespacedName) bool {
	p.gangs.Lock()
	defer p.gangs.Unlock()
	return p.wideGangs[key]
}

// team is the waiting members of a group and what they ask.
type team struct {
	p     *Plugin
	key   types.NamespacedName
	pods  []*v1.Pod // in the order of their ranks
	kinds []*kind   // largest first
	set   *settings
	need  int // how many of the pods must be placed
	want  int // how many members the group has in all
	held  map[string]int
	plain bool
	born  time.Time // creation of the group
}

// kind is pods that are the same to every node: they ask the same.
type kind struct {
	*cycle
	pods   []*v1.Pod
	screen *screen
}

// newTeam reads the group. It returns nil for a group of which nothing waits,
// and reasons for one that no node can help.
func (p *Plugin) newTeam(pg fwk.PodGroupInfo) (*team, []reason.Reason) {
	t := &team{p: p, key: types.NamespacedName{Namespace: pg.GetNamespace(), Name: pg.GetName()}, set: p.state.settings.Load(),
		held: map[string]int{}, plain: true}
	t.pods = slices.SortedFunc(slices.Values(pg.GetUnscheduledPods()), byRank)
	if len(t.pods) == 0 {
		return nil, nil
	}
	kinds := map[string]*kind{}
	for _, pod := range t.pods {
		c, bad := p.read(pod, t.set)
		if len(bad) > 0 {
			return nil, bad
		}
		t.plain = t.plain && plain(pod)
		s := newScreen(pod, t.set.Config)
		key := c.class.key + s.key()
		k := kinds[key]
		if k == nil {
			k = &kind{cycle: c, screen: s}
			kinds[key] = k
			t.kinds = append(t.kinds, k)
		}
		k.pods = append(k.pods, pod)
	}
	slices.SortStableFunc(t.kinds, func(a, b *kind) int { return cmp.Compare(weightOf(b.cycle), weightOf(a.cycle)) })
	scheduled := 0
	if st, err := p.handle.SnapshotSharedLister().PodGroupStates().Get(t.key.Namespace, t.key.Name); err == nil {
		for _, s := range st.ScheduledPods() {
			t.held[s.Spec.NodeName]++
			scheduled++
		}
	}
	t.need, t.want = len(t.pods), len(t.pods)+scheduled
	if g := pg.GetPodGroup(); g != nil {
		t.born = g.CreationTimestamp.Time
	}
	if g := pg.GetPodGroup(); g != nil && g.Spec.SchedulingPolicy.Gang != nil {
		t.need = max(1, min(t.need, int(g.Spec.SchedulingPolicy.Gang.MinCount)-scheduled))
	}
	return t, nil
}

// weightOf orders kinds: those that ask more of whole cards first.
func weightOf(c *cycle) int64 {
	var w int64
	for i := range c.req.Asks {
		a := &c.req.Asks[i]
		w += int64(a.Count) * (1000 + a.Core + 10*int64(a.Slices))
	}
	return w
}

// plain tells whether the nodes' own amounts, labels and taints decide about
// the pod.
func plain(p *v1.Pod) bool {
	s := &p.Spec
	if a := s.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		return false
	}
	if len(s.TopologySpreadConstraints) > 0 || len(s.ResourceClaims) > 0 {
		return false
	}
	for i := range s.Volumes {
		if s.Volumes[i].PersistentVolumeClaim != nil || s.Volumes[i].Ephemeral != nil {
			return false
		}
	}
	for i := range s.Containers {
		for _, port := range s.Containers[i].Ports {
			if port.HostPort != 0 {
				return false
			}
		}
	}
	return true
}

// byRank orders members as their program numbers them, so that neighbours talk
// to neighbours: by their Job in the set, by their index in the Job, by name.
func byRank(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(number(a, kube.JobSetRankLabel), number(b, kube.JobSetRankLabel)),
		cmp.Compare(number(a, indexLabel), number(b, indexLabel)), strings.Compare(a.Name, b.Name))
}

// indexLabel is a pod's number in its Job.
const indexLabel = "batch.kubernetes.io/job-completion-index"

func number(p *v1.Pod, key string) int {
	text, ok := p.Labels[key]
	if !ok {
		text = p.Annotations[key]
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// site is what the nodes offer to a team.
type site struct {
	nodes []fwk.NodeInfo
	rooms []gang.Room
	// caps has for each kind what each node can take of it alone.
	caps [][]int
}

// survey asks every node.
func (t *team) survey(nodes []fwk.NodeInfo) *site {
	s := &site{nodes: nodes, rooms: make([]gang.Room, len(nodes)), caps: make([][]int, len(t.kinds))}
	for k := range t.kinds {
		s.caps[k] = make([]int, len(nodes))
	}
	t.p.handle.Parallelizer().Until(context.Background(), len(nodes), func(i int) {
		n := nodes[i]
		total := 0
		for k, kind := range t.kinds {
			s.caps[k][i] = t.p.capacity(kind, n, len(kind.pods), t.key)
			total += s.caps[k][i]
		}
		s.rooms[i] = gang.Room{Node: n.Node().Name, At: t.p.state.placeOf(t.set, n), Cap: total, Held: t.held[n.Node().Name]}
	}, Name)
	return s
}

// capacity is how many pods of a kind a node can take now, up to limit.
func (p *Plugin) capacity(k *kind, ni fwk.NodeInfo, limit int, group types.NamespacedName) int {
	if p.state.kept.Load().barred(k.pods[0], ni.Node().Name, p.clock.Now()) {
		return 0
	}
	if n := k.screen.capacity(ni); n < limit {
		limit = n
	}
	if limit <= 0 || k.req.Empty() {
		return max(limit, 0)
	}
	return p.state.capacity(k.cycle, ni, limit, p.promised(k.pods[0], ni.Node().Name, group))
}

// promised are pods that preemption has made room for on the node and that go
// before this one. The engine puts them in itself when it filters.
func (p *Plugin) promised(pod *v1.Pod, node string, group types.NamespacedName) []*v1.Pod {
	var out []*v1.Pod
	for _, pi := range p.handle.NominatedPodsForNode(node) {
		other := pi.GetPod()
		if k, ok := keyOf(other); ok && k == group {
			continue
		}
		if v1helper.PodPriority(other) >= v1helper.PodPriority(pod) {
			out = append(out, other)
		}
	}
	return out
}

// of lists the nodes of a domain.
func (s *site) of(d gang.Domain) []fwk.NodeInfo {
	out := make([]fwk.NodeInfo, len(d.Rooms))
	for i, r := range d.Rooms {
		out[i] = s.nodes[r]
	}
	return out
}

// named lists the nodes that a plan uses, each once, in the order of the site.
func (s *site) named(nodes map[types.UID]string) []fwk.NodeInfo {
	used := sets.New[string]()
	for _, n := range nodes {
		used.Insert(n)
	}
	out := make([]fwk.NodeInfo, 0, used.Len())
	for i := range s.nodes {
		if used.Has(s.rooms[i].Node) {
			out = append(out, s.nodes[i])
		}
	}
	return out
}

// layOut gives each member a node of the domain; ok is false if fewer than
// needed find one.
func (t *team) layOut(s *site, d gang.Domain) (nodes map[types.UID]string, ok bool) {
	nodes = make(map[types.UID]string, len(t.pods))
	spread := t.set.NodePolicy == config.Spread
	var sheets map[int]*sheet // of nodes that kinds before have used
	if len(t.kinds) > 1 {
		sheets = map[int]*sheet{}
	}
	for k, kind := range t.kinds {
		rooms := slices.Clone(s.rooms)
		for _, r := range d.Rooms {
			rooms[r].Cap = s.caps[k][r]
			if x := sheets[r]; x != nil {
				rooms[r].Cap = x.capacity(kind, len(kind.pods))
			}
		}
		left := kind.pods
		for _, share := range gang.Fill(rooms, d, len(left), spread) {
			for _, pod := range left[:share.Members] {
				nodes[pod.UID] = s.rooms[share.Room].Node
			}
			left = left[share.Members:]
			if sheets != nil {
				if sheets[share.Room] == nil {
					sheets[share.Room] = t.p.newSheet(t.set, s.nodes[share.Room])
				}
				sheets[share.Room].take(kind, share.Members)
			}
		}
	}
	return nodes, len(nodes) >= t.need
}

// refuse says why the group is not placed: how far it comes, and what the
// nodes say. One text for all members, so that each tells the one true reason.
// most is how many could be laid out at all.
func (t *team) refuse(ctx context.Context, cs fwk.PodGroupCycleState, s *site, most int) *fwk.Status {
	total, want := 0, t.need
	for i := range s.rooms {
		total += s.rooms[i].Cap
	}
	total = min(total, most)
	r := reason.Reason{Code: "gang-short", Want: int64(want), Free: int64(min(total, want))}
	if best, ok := gang.Largest(s.rooms); ok {
		r.Free = int64(min(best.Cap, want, most))
		if total >= want {
			r.Code = "gang-above-network-pod"
			r.Device = best.Name
		}
	}
	h := holder{group: t.key, name: "group " + t.key.String()}
	if _, owner, ok := t.p.state.groups.of(t.key); ok {
		h.name = owner + " of " + t.key.Namespace
	}
	t.p.keepFor(t, s, h, t.born)
	t.p.refused(ctx, t.pods[0], "", []reason.Reason{r})
	cs.Write(shortKey, shortage{r})
	text := full(r)
	if note := t.p.keptNote(h); note != "" {
		text += "; " + note
	}
	if why := t.causes(s); why != "" {
		text += "; " + why
	}
	return fwk.NewStatus(fwk.Unschedulable).WithError(&framework.FitError{
		Pod: t.pods[0], NumAllNodes: len(s.nodes),
		Diagnosis: framework.Diagnosis{
			NodeToStatus: framework.NewDefaultNodeToStatus(), PreFilterMsg: text,
			// What of these changes may make room.
			UnschedulablePlugins: sets.New(Name, FitName, names.TaintToleration, names.NodeAffinity, names.NodeUnschedulable),
		},
	})
}

// maxCauses bounds how many different causes one refusal names.
const maxCauses = 3

// causes counts what the nodes that take fewer than asked say, most common
// first.
func (t *team) causes(s *site) string {
	k := t.kinds[0]
	count := map[string]int{}
	for i, ni := range s.nodes {
		if s.caps[0][i] > 0 {
			continue
		}
		if keep := t.p.state.kept.Load(); keep.barred(t.pods[0], ni.Node().Name, t.p.clock.Now()) {
			count[keep.status().Message()]++
		} else if why := k.screen.refuses(ni); why != "" {
			count[why]++
		} else if !k.req.Empty() {
			if rs := t.p.state.check(k.cycle, ni); len(rs) > 0 {
				count[countable(rs[0])]++
			} else {
				count["no room beside pods that were promised the node"]++
			}
		}
	}
	texts := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(-cmp.Compare(count[a], count[b]), strings.Compare(a, b)) })
	for i, text := range texts {
		texts[i] = fmt.Sprintf("%d %s", count[text], text)
	}
	if len(texts) > maxCauses {
		texts = append(texts[:maxCauses], fmt.Sprintf("and %d more causes", len(texts)-maxCauses))
	}
	return strings.Join(texts, ", ")
}

// sheet is one node while members of several kinds are laid out on it.
type sheet struct {
	ni   fwk.NodeInfo
	view *place.View
}

func (p *Plugin) newSheet(set *settings, ni fwk.NodeInfo) *sheet {
	s := p.state
	v := s.viewOf(ni.Node().Name)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refresh(s, set, ni)
	return &sheet{ni: ni.Snapshot(), view: s.beside(v, ni, nil)}
}

// capacity is how many more pods of the kind the node takes.
func (x *sheet) capacity(k *kind, limit int) int {
	if limit = min(limit, k.screen.capacity(x.ni)); limit <= 0 {
		return 0
	}
	return x.view.Capacity(k.req, limit)
}

// take puts n pods of the kind on the node.
func (x *sheet) take(k *kind, n int) {
	for _, pod := range k.pods[:min(n, len(k.pods))] {
		if info, err := framework.NewPodInfo(pod); err == nil {
			x.ni.AddPodInfo(info)
		}
		if offer, why := x.view.Fit(k.req); why == nil {
			x.view.Add(offer.Uses)
		}
	}
}
