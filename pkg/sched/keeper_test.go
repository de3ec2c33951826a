package sched

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/kube"
)

// ward is a keeper on a fake API, with no engine beside it: what it is told
// and what the clock says are the test's.
type ward struct {
	t      rapid.TB
	client *fake.Clientset
	state  *State
	keeper *Keeper
	clock  *testclock.FakeClock

	events  []string // name of the pod: note
	evicted []string
	budget  int // evictions that the API server still allows
	writes  int
}

var wardStart = time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)

func newWard(t rapid.TB) *ward {
	w := &ward{t: t, client: fake.NewClientset(), clock: testclock.NewFakeClock(wardStart), budget: 1 << 20}
	w.client.PrependReactor("create", "pods", w.evict)
	w.client.PrependReactor("patch", "pods", func(k8stesting.Action) (bool, runtime.Object, error) { w.writes++; return false, nil, nil })
	w.restart()
	return w
}

// restart makes another process lead.
func (w *ward) restart() {
	w.state = NewState(cfg)
	w.keeper = NewKeeper(w.state, w.client, (*wardEvents)(w), w.clock)
	w.see()
}

type wardEvents ward

func (w *wardEvents) Eventf(regarding, _ runtime.Object, _, why, _, note string, args ...any) {
	w.events = append(w.events, regarding.(*v1.Pod).Name+": "+why+": "+fmt.Sprintf(note, args...))
}

var _ events.EventRecorder = (*wardEvents)(nil)

func (w *ward) evict(a k8stesting.Action) (bool, runtime.Object, error) {
	if a.GetSubresource() != "eviction" {
		return false, nil, nil
	}
	e := a.(k8stesting.CreateAction).GetObject().(*policyv1.Eviction)
	if w.budget--; w.budget < 0 {
		return true, nil, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	}
	if p := w.pod(e.Name); p.UID != *e.DeleteOptions.Preconditions.UID {
		return true, nil, apierrors.NewConflict(podsGVR.GroupResource(), e.Name, fmt.Errorf("uid differs"))
	}
	w.evicted = append(w.evicted, e.Name)
	w.change(e.Name, func(p *v1.Pod) { now := metav1.NewTime(w.clock.Now()); p.DeletionTimestamp = &now })
	return true, nil, nil
}

func (w *ward) pods() []v1.Pod {
	o, err := w.client.Tracker().List(podsGVR, v1.SchemeGroupVersion.WithKind("Pod"), "default")
	if err != nil {
		w.t.Fatal(err)
	}
	return o.(*v1.PodList).Items
}

func (w *ward) pod(name string) *v1.Pod {
	o, err := w.client.Tracker().Get(podsGVR, "default", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return o.(*v1.Pod)
}

// see shows the registry the pods as the API has them.
func (w *ward) see() {
	for _, p := range w.pods() {
		w.state.groups.adopt(p.DeepCopy())
	}
}

func (w *ward) add(pods ...*v1.Pod) {
	for _, p := range pods {
		p.CreationTimestamp = metav1.NewTime(w.clock.Now())
		if err := w.client.Tracker().Add(p); err != nil {
			w.t.Fatal(err)
		}
	}
	w.see()
}

func (w *ward) change(name string, f func(*v1.Pod)) {
	p := w.pod(name).DeepCopy()
	f(p)
	if err := w.client.Tracker().Update(podsGVR, p, "default"); err != nil {
		w.t.Fatal(err)
	}
	w.see()
}

func (w *ward) bind(names ...string) {
	for _, n := range names {
		w.change(n, func(p *v1.Pod) {
			p.Spec.NodeName = "n"
			p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
		})
	}
}

func (w *ward) remove(names ...string) {
	for _, n := range names {
		p, name := w.pod(n).DeepCopy(), w.key(n).Name
		if err := w.client.Tracker().Delete(podsGVR, "default", n); err != nil {
			w.t.Fatal(err)
		}
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		w.state.groups.gone(p)
	}
}

// key is the group of a pod.
func (w *ward) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: kube.GroupOf(w.pod(name), cfg).Name}
}

func (w *ward) job(set string, size int, f func(*batchv1.Job)) {
	j := setJob(set, size, 0)
	f(j)
	w.state.groups.job(j)
}

// pass lets time go by, second by second, with the keeper looking at each.
func (w *ward) pass(d time.Duration) {
	for range int(d/time.Second) + 1 {
		w.state.groups.mu.Lock()
		var keys []types.NamespacedName
		for key := range w.state.groups.byKey {
			keys = append(keys, key)
		}
		w.state.groups.mu.Unlock()
		for _, key := range keys {
			w.keeper.keep(context.Background(), key)
			w.see()
		}
		w.clock.Step(time.Second)
	}
	w.clock.Step(-time.Second)
}

func (w *ward) message(name string, kind v1.PodConditionType) string {
	if c := conditionOf(w.pod(name), kind); c != nil {
		return string(c.Status) + " " + c.Reason + " " + c.Message
	}
	return ""
}

func (w *ward) expect(name string, kind v1.PodConditionType, want string) {
	w.t.Helper()
	got := w.message(name, kind)
	if want == "" && got != "" || !strings.HasPrefix(got, want) {
		w.t.Errorf("condition %s of %s is %q, want %q", kind, name, got, want)
	}
}

func (w *ward) told(words string) int {
	n := 0
	for _, e := range w.events {
		if strings.Contains(e, words) {
			n++
		}
	}
	return n
}

func ignoring(j *batchv1.Job) {
	j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action:          batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}},
	}}}
}

func TestMembersAreToldThatOthersAreMissing(t *testing.T) {
	w := newWard(t)
	w.add(members("a", 0, 3, 4, limits{"nvidia": 8})...)
	w.pass(2 * time.Second)
	if w.writes != 0 || len(w.events) != 0 {
		t.Fatalf("%d writes and events %q while the pods are being made", w.writes, w.events)
	}
	w.pass(4 * time.Second)
	for i := range 3 {
		w.expect(fmt.Sprintf("a-%d", i), v1.PodScheduled, "False Unschedulable gang-forming: 3 of 4 members exist")
	}
	w.expect("a-0", kube.GangCondition, "False Forming 3 of 4 members exist, 0 have nodes; since 2026-12-01T08:00:00Z, round 1")
	w.expect("a-1", kube.GangCondition, "")
	if len(w.events) != 1 || w.writes != 3 {
		t.Errorf("%d writes, events %q", w.writes, w.events)
	}

	w.pass(172 * time.Second) // 178 s
	w.expect("a-0", v1.PodScheduled, "False Unschedulable gang-forming")
	w.pass(2 * time.Second) // 180 s
	for i := range 3 {
		w.expect(fmt.Sprintf("a-%d", i), v1.PodScheduled, "False Unschedulable gang-incomplete: 3 of 4 members exist")
	}
	w.expect("a-0", kube.GangCondition, "False Incomplete 3 of 4")
	w.restart()
	w.pass(time.Minute)
	if n := w.told("a-0: FailedScheduling: gang-incomplete: 3 of 4"); n != 1 || len(w.events) != 2 || w.writes != 6 {
		t.Errorf("%d writes, events %q", w.writes, w.events)
	}

	w.add(member("a", 3, 4, limits{"nvidia": 8}))
	w.pass(10 * time.Second)
	w.expect("a-0", kube.GangCondition, "False Waiting 4 of 4 members exist, 0 have nodes")
	if len(w.events) != 2 || w.writes != 7 {
		t.Errorf("%d writes, events %q", w.writes, w.events)
	}
}

func TestTheDeadlineComesByItself(t *testing.T) {
	w := newWard(t)
	w.add(members("a", 0, 3, 4, limits{"nvidia": 8})...)
	key := w.key("a-0")
	w.clock.Step(5 * time.Second)
	w.keeper.keep(context.Background(), key)
	w.clock.Step(5 * time.Second)
	if d := w.keeper.keep(context.Background(), key); d != 170*time.Second {
		t.Errorf("looks again after %v, the time is over in 170 s", d)
	}
}

func TestMembersThatDisagreeAreTold(t *testing.T) {
	w := newWard(t)
	w.add(member("a", 0, 2, limits{"nvidia": 1}), member("a", 1, 3, limits{"nvidia": 1}))
	w.add(priority(member("b", 0, 2, limits{"nvidia": 1}), 5), member("b", 1, 2, limits{"nvidia": 1}))
	bad := member("c", 0, 2, limits{"nvidia": 1})
	bad.Labels[cfg.MinMemberLabel()] = "two"
	w.add(bad)
	w.pass(5 * time.Second)
	w.expect("a-0", v1.PodScheduled, "False Unschedulable min-member-differs: ")
	w.expect("a-1", v1.PodScheduled, "False Unschedulable min-member-differs: ")
	w.expect("a-0", kube.GangCondition, "False Invalid min-member-differs: ")
	w.expect("b-1", v1.PodScheduled, "False Unschedulable gang-members-differ: ")
	w.expect("c-0", v1.PodScheduled, "False Unschedulable "+string(kube.GroupOf(bad, cfg).Bad)+": ")
	w.pass(200 * time.Second)
	if len(w.events) != 3 {
		t.Errorf("events %q", w.events)
	}
}

// A gated pod has the reason of who gates it, and a pod that the engine has
// tried that of the engine.
func TestOthersReasonsStay(t *testing.T) {
	w := newWard(t)
	gated := member("a", 1, 4, limits{"nvidia": 1})
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "quota"}}
	w.add(member("a", 0, 4, limits{"nvidia": 1}), gated)
	full := member("b", 0, 1, limits{"nvidia": 1})
	full.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"}}
	w.add(full)
	w.pass(5 * time.Second)
	w.expect("a-0", v1.PodScheduled, "False Unschedulable gang-forming")
	w.expect("a-1", v1.PodScheduled, "")
	w.expect("b-0", v1.PodScheduled, "False Unschedulable 0/3 nodes")
}

// The group pauses after a commit that has failed: members that took part have
// the engine's reason, one that came since gets the pause.
func TestAPauseIsTold(t *testing.T) {
	w := newWard(t)
	tried := member("a", 0, 2, limits{"nvidia": 8})
	tried.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: "binding refused"}}
	w.add(tried, member("a", 1, 2, limits{"nvidia": 8}))
	key := w.key("a-0")
	w.state.attach(&Plugin{state: w.state, clock: w.clock, cooling: map[types.NamespacedName]*cooling{
		key: {steps: 3, until: wardStart.Add(time.Minute), why: "gang-rolled-back: member a-0 could not be bound"}}})
	w.pass(5 * time.Second)
	w.expect("a-0", v1.PodScheduled, "False Unschedulable binding refused")
	w.expect("a-1", v1.PodScheduled, "False Unschedulable gang-rolled-back: ")
	w.expect("a-0", kube.GangCondition, "False Waiting 2 of 2 members exist, 0 have nodes; since 2026-12-01T08:00:00Z, round 4")
	if w.pass(time.Minute); len(w.events) > 0 {
		t.Errorf("events %q, beside those of the engine", w.events)
	}
}

// A pod that is bound at the same moment must not be shown as waiting, so the
// API server is given the version that was judged.
func TestAConditionIsForThePodThatWasSeen(t *testing.T) {
	w := newWard(t)
	p := member("a", 0, 4, limits{"nvidia": 1})
	p.ResourceVersion = "41"
	w.add(p)
	var body struct {
		Metadata struct{ UID, ResourceVersion string }
	}
	w.client.PrependReactor("patch", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if err := json.Unmarshal(a.(k8stesting.PatchAction).GetPatch(), &body); err != nil {
			t.Fatal(err)
		}
		return true, nil, apierrors.NewConflict(podsGVR.GroupResource(), "a-0", fmt.Errorf("changed"))
	})
	w.pass(3 * time.Second)
	if w.pass(2 * time.Second); body.Metadata.UID != "uid-a-0" || body.Metadata.ResourceVersion != "41" {
		t.Errorf("patch names %+v", body.Metadata)
	}
}

func TestTheMarkOfAPlacedGroupMoves(t *testing.T) {
	w := newWard(t)
	w.add(members("a", 0, 4, 4, limits{"nvidia": 8})...)
	w.pass(5 * time.Second)
	w.bind("a-0", "a-1", "a-2", "a-3")
	w.pass(0)
	w.expect("a-0", kube.GangCondition, "True Placed all 4 members have had nodes by 2026-12-01T08:00:05Z, round 1")
	w.restart()
	w.remove("a-0")
	w.pass(0)
	w.expect("a-1", kube.GangCondition, "True Placed all 4 members have had nodes by ")
	w.restart()
	w.remove("a-1")
	w.add(member("a", 7, 4, limits{"nvidia": 8}))
	w.pass(0)
	w.expect("a-2", kube.GangCondition, "True Placed ")
	w.expect("a-3", kube.GangCondition, "")
	w.expect("a-7", v1.PodScheduled, "")
	if w.pass(10 * time.Minute); len(w.evicted) > 0 || len(w.events) > 0 {
		t.Errorf("evicted %v, events %q", w.evicted, w.events)
	}
}

// A member that is older by name than the one that was first seen takes the
// condition over.
func TestTheFirstMemberAloneShowsTheGroup(t *testing.T) {
	w := newWard(t)
	w.add(member("a", 1, 4, limits{"nvidia": 8}))
	w.pass(5 * time.Second)
	w.expect("a-1", kube.GangCondition, "False Forming 1 of 4")
	late := member("a", 0, 4, limits{"nvidia": 8})
	w.add(late)
	w.change("a-0", func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(wardStart) })
	w.pass(5 * time.Second)
	w.expect("a-0", kube.GangCondition, "False Forming 2 of 4")
	w.expect("a-1", kube.GangCondition, "")
	w.expect("a-1", v1.PodScheduled, "False Unschedulable gang-forming: 2 of 4")
}

func TestAHalfBoundGroupIsFreedIfNothingIsLost(t *testing.T) {
	cases := map[string]struct {
		job     func(*batchv1.Job)
		evicted int
		says    string
	}{
		"its Job ignores disruption": {ignoring, 2, "GangRolledBack: 2 of the group's 4 members had nodes, and the others got none within 3m"},
		"its Job has no policy":      {func(*batchv1.Job) {}, 0, "GangHalfBound: gang-half-bound: 2 of the group's 4 members have nodes"},
		"a member has finished":      {func(j *batchv1.Job) { ignoring(j); j.Status.Succeeded = 1 }, 0, "members have finished"},
		"a member has failed":        {func(j *batchv1.Job) { ignoring(j); j.Status.Failed = 1 }, 0, "have failed"},
		"a rule on exit codes comes first": {func(j *batchv1.Job) {
			ignoring(j)
			j.Spec.PodFailurePolicy.Rules = slices.Insert(j.Spec.PodFailurePolicy.Rules, 0, batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionFailJob,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpNotIn, Values: []int32{0}}})
		}, 0, "does not ignore DisruptionTarget"},
		"its Job is unknown": {nil, 0, "job a-workers-0 is not known"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWard(t)
			if c.job != nil {
				w.job("a", 4, c.job)
			}
			w.add(members("a", 0, 4, 4, limits{"nvidia": 8})...)
			w.bind("a-0", "a-3")
			w.pass(179 * time.Second)
			if len(w.evicted) > 0 || len(w.events) > 0 {
				t.Fatalf("evicted %v, events %q before the time was over", w.evicted, w.events)
			}
			w.expect("a-0", kube.GangCondition, "False HalfBound ")
			w.pass(20 * time.Second)
			if len(w.evicted) != c.evicted || len(w.events) != 1 || w.told(c.says) != 1 {
				t.Errorf("evicted %v, events %q", w.evicted, w.events)
			}
			if w.pass(20 * time.Minute); len(w.evicted) != c.evicted || w.told(c.says) != 1 {
				t.Errorf("later: evicted %v, events %q", w.evicted, w.events)
			}
		})
	}
}

func TestProgressPutsTheEvictionOff(t *testing.T) {
	w := newWard(t)
	w.job("a", 4, ignoring)
	w.add(members("a", 0, 4, 4, limits{"nvidia": 8})...)
	w.bind("a-0")
	w.pass(100 * time.Second)
	w.bind("a-1")
	if w.pass(179 * time.Second); len(w.evicted) > 0 {
		t.Errorf("evicted %v, although a member was bound 179 s ago", w.evicted)
	}
	if w.pass(2 * time.Second); len(w.evicted) != 2 {
		t.Errorf("evicted %v", w.evicted)
	}
}

func TestABindingOnItsWayPutsTheEvictionOff(t *testing.T) {
	w := newWard(t)
	w.job("a", 2, ignoring)
	w.add(members("a", 0, 2, 2, limits{"nvidia": 8})...)
	w.bind("a-0")
	w.state.store("uid-a-1", &record{node: "n", assumed: true})
	if w.pass(10 * time.Minute); len(w.evicted) > 0 {
		t.Errorf("evicted %v", w.evicted)
	}
}

func TestWhoMayNotBindMayNotEvict(t *testing.T) {
	w := newWard(t)
	w.job("a", 2, ignoring)
	w.add(members("a", 0, 2, 2, limits{"nvidia": 8})...)
	w.bind("a-0")
	w.state.Fence(func() error { return fmt.Errorf("another process leads") })
	if w.pass(10 * time.Minute); len(w.evicted) > 0 {
		t.Errorf("evicted %v", w.evicted)
	}
}

func TestEvictionsKeepToDisruptionBudgets(t *testing.T) {
	w := newWard(t)
	w.job("a", 4, ignoring)
	w.add(members("a", 0, 4, 4, limits{"nvidia": 8})...)
	w.bind("a-0", "a-1", "a-2")
	w.budget = 0
	if w.pass(400 * time.Second); len(w.evicted) > 0 || w.told("GangHalfBound") != 1 || w.told("violate the pod's disruption budget") != 1 {
		t.Fatalf("evicted %v, events %q", w.evicted, w.events)
	}
	w.budget = 1
	w.pass(time.Minute)
	w.budget = 8
	w.pass(2 * time.Minute)
	if slices.Sort(w.evicted); !slices.Equal(w.evicted, []string{"a-0", "a-1", "a-2"}) || w.told("GangRolledBack") != 1 {
		t.Errorf("evicted %v, events %q", w.evicted, w.events)
	}
}

func TestTheTimeBetweenEvictionsDoubles(t *testing.T) {
	w := newWard(t)
	w.job("a", 2, ignoring)
	for round, want := range []time.Duration{180, 360, 720} {
		a, b := 2*round, 2*round+1
		w.add(member("a", a, 2, limits{"nvidia": 8}), member("a", b, 2, limits{"nvidia": 8}))
		w.pass(5 * time.Second)
		w.bind(fmt.Sprintf("a-%d", a))
		w.pass(want*time.Second - time.Second)
		if len(w.evicted) != round {
			t.Fatalf("round %d: evicted %v too early", round, w.evicted)
		}
		w.pass(3 * time.Second)
		if len(w.evicted) != round+1 {
			t.Fatalf("round %d: evicted %v", round, w.evicted)
		}
		w.remove(fmt.Sprintf("a-%d", a), fmt.Sprintf("a-%d", b))
	}
}

// A relabelled member makes the group invalid and takes nothing of what it
// was: when the label is right again, a lost member is replaced alone.
func TestTheMarkOutlivesAWrongLabel(t *testing.T) {
	w := newWard(t)
	w.job("a", 4, ignoring)
	w.add(members("a", 0, 4, 4, limits{"nvidia": 8})...)
	w.bind("a-0", "a-1", "a-2", "a-3")
	w.pass(0)
	w.change("a-1", func(p *v1.Pod) { p.Labels[cfg.MinMemberLabel()] = "x" })
	w.pass(5 * time.Second)
	w.expect("a-0", kube.GangCondition, "True Placed")
	w.remove("a-0")
	w.pass(0)
	w.expect("a-1", kube.GangCondition, "True Placed")
	w.restart()
	w.change("a-1", func(p *v1.Pod) { p.Labels[cfg.MinMemberLabel()] = "4" })
	if got := w.keeper.Phases(); got[string(gang.Placed)] != 1 {
		t.Errorf("phases %v", got)
	}
}

// A size that cannot be read is no size: one member with a node does not make
// the group a placed one.
func TestAWrongLabelMakesNoMark(t *testing.T) {
	w := newWard(t)
	w.add(members("a", 0, 4, 4, limits{"nvidia": 8})...)
	w.bind("a-0")
	w.change("a-0", func(p *v1.Pod) { p.Labels[cfg.MinMemberLabel()] = "x" })
	w.pass(5 * time.Second)
	w.expect("a-0", kube.GangCondition, "False Invalid")
	w.change("a-0", func(p *v1.Pod) { p.Labels[cfg.MinMemberLabel()] = "4" })
	if got := w.keeper.Phases(); got[string(gang.HalfBound)] != 1 {
		t.Errorf("phases %v", got)
	}
}

// A group of which nothing is left starts anew, and is placed whole again.
func TestAMarkDoesNotOutliveTheGroup(t *testing.T) {
	w := newWard(t)
	w.add(members("a", 0, 2, 2, limits{"nvidia": 8})...)
	w.bind("a-0", "a-1")
	w.pass(0)
	w.add(members("a", 2, 4, 2, limits{"nvidia": 8})...)
	w.remove("a-0", "a-1")
	w.bind("a-2")
	if got := w.keeper.Phases(); got[string(gang.HalfBound)] != 1 {
		t.Errorf("phases %v", got)
	}
}

// Whatever happens: nothing of a group that was placed is evicted, events come
// at most once for each change, and in the end each member that waits says
// what its group says.
func TestKeeperUnderRandomChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWard(t)
		w.job("a", 3, ignoring)
		next, changes, placed := 0, 1, false
		for range rapid.IntRange(5, 30).Draw(t, "steps") {
			pods := w.pods()
			evicted := len(w.evicted)
			switch op := rapid.SampledFrom([]string{"add", "add", "bind", "bind", "remove", "label", "restart", "wait", "wait long"}).Draw(t, "op"); {
			case op == "add":
				w.add(member("a", next, 3, limits{"nvidia": 8}))
				next++
			case op == "wait":
				w.pass(time.Duration(rapid.IntRange(0, 9).Draw(t, "s")) * time.Second)
			case op == "wait long":
				w.clock.Step(200 * time.Second)
				w.pass(time.Second)
			case op == "restart":
				w.restart()
				w.job("a", 3, ignoring)
			case len(pods) == 0:
				continue
			default:
				p := pods[rapid.IntRange(0, len(pods)-1).Draw(t, "pod")]
				switch {
				case op == "remove":
					w.remove(p.Name)
				case p.DeletionTimestamp != nil:
					continue
				case op == "bind" && p.Spec.NodeName == "":
					w.bind(p.Name)
				case op == "label":
					w.change(p.Name, func(p *v1.Pod) {
						p.Labels[cfg.MinMemberLabel()] = rapid.SampledFrom([]string{"3", "3", "4", "x"}).Draw(t, "size")
					})
				}
			}
			changes++
			if placed && len(w.evicted) > evicted {
				t.Fatalf("%v of a placed group was evicted", w.evicted)
			}
			placed = slices.ContainsFunc(w.pods(), func(p v1.Pod) bool { return p.DeletionTimestamp == nil && p.Spec.NodeName != "" && placedMark(&p) })
		}
		// Each change leads to one event, and time to one more.
		if len(w.events) > 2*changes {
			t.Fatalf("%d events for %d changes: %q", len(w.events), changes, w.events)
		}
		w.pass(10 * time.Second)
		said, wrote := len(w.events), w.writes
		w.agree(t)
		if w.pass(10 * time.Second); len(w.events)-said > 1 || w.writes-wrote > next {
			t.Fatalf("%d writes and events %q without a change", w.writes-wrote, w.events[said:])
		}
	})
}

// agree compares what the members say with the groups as they are.
func (w *ward) agree(t *rapid.T) {
	for key, x := range w.state.groups.byKey {
		g, ok := w.state.groups.look(key)
		if !ok || len(g.members) == 0 {
			continue
		}
		why := x.core.Why(w.clock.Now().Unix(), cfg.GangTimeoutSeconds)
		shown := 0
		for _, p := range g.members {
			if c := conditionOf(p, kube.GangCondition); c != nil {
				shown++
			}
			if p.Spec.NodeName == "" && !x.core.Tried() {
				if c := conditionOf(p, v1.PodScheduled); c == nil || c.Message != full(*why) {
					t.Fatalf("%s says %+v, its group %s", p.Name, c, full(*why))
				}
			}
			if c := conditionOf(p, v1.PodScheduled); p.Spec.NodeName != "" && c.Status != v1.ConditionTrue {
				t.Fatalf("%s is bound and says %+v", p.Name, c)
			}
		}
		want := x.core.Phase(w.clock.Now().Unix(), cfg.GangTimeoutSeconds)
		if x.core.Marked {
			want = gang.Placed
		}
		if shown != 1 || conditionOf(bearerOf(g), kube.GangCondition).Reason != string(want) {
			t.Fatalf("%d members show the group, which is %s: %s", shown, want, w.message(bearerOf(g).Name, kube.GangCondition))
		}
	}
}

// guard runs a keeper beside the rig's engine, on a clock of the test's.
func (r *rig) guard(c *testclock.FakeClock) {
	k := NewKeeper(r.state, r.client, &notes{r: r}, c)
	done := make(chan struct{})
	go func() { defer close(done); k.Run(r.ctx) }()
	r.t.Cleanup(func() { r.stop(); <-done })
}

// tick lets the keeper's time go by until something is so.
func (r *rig) tick(c *testclock.FakeClock, what string, ok func() bool) {
	r.t.Helper()
	r.until(what, func() bool { c.Step(100 * time.Millisecond); return ok() })
}

func (r *rig) notes(pod, words string) int {
	n := 0
	for _, note := range r.allEvents()["default/"+pod] {
		if strings.Contains(note, words) {
			n++
		}
	}
	return n
}

// The seventh member comes at 179 s or at 181 s: the group is placed then,
// whole, without anybody making its pods anew.
func TestTheLastMemberComesBeforeOrAfterTheTime(t *testing.T) {
	for at, incomplete := range map[int]int{179: 0, 181: 1} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			r := newRig(t, NewState(cfg), network(t, 1, 1, 7)...)
			c := testclock.NewFakeClock(wardStart)
			pods := members("a", 0, 7, 7, limits{"nvidia": 8})
			for _, p := range pods {
				p.CreationTimestamp = metav1.NewTime(wardStart)
			}
			r.add(pods[:6]...)
			r.guard(c)
			r.tick(c, "the members are told", func() bool { return r.notes("a-0", "gang-forming: 6 of 7") == 1 })
			c.SetTime(wardStart.Add(time.Duration(at) * time.Second))
			if incomplete > 0 {
				r.until("the group's time is over", func() bool { return r.notes("a-0", "gang-incomplete: 6 of 7") == 1 })
				r.until("each member says so", func() bool {
					return !slices.ContainsFunc(r.pods(), func(p *v1.Pod) bool {
						c := conditionOf(p, v1.PodScheduled)
						return c == nil || !strings.HasPrefix(c.Message, "gang-incomplete: 6 of 7")
					})
				})
			}
			if got := r.where("a"); len(got) > 0 {
				t.Fatalf("%v bound, the seventh member is missing", got)
			}
			pods[6].CreationTimestamp = metav1.NewTime(c.Now())
			r.add(pods[6])
			r.allBound("a", 7)
			r.tick(c, "the mark of a placed group", func() bool { return placedMark(r.pod("a-0")) })
			if n := r.notes("a-0", "gang-incomplete"); n != incomplete {
				t.Errorf("%d events about missing members: %q", n, r.allEvents()["default/a-0"])
			}
		})
	}
}
