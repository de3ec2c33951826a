package sched

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/kube"
)

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
	w.state.attach(&Plugin{state: w.state, clock: w.clock, handle: nobodyWaits{}, cooling: map[types.NamespacedName]*cooling{
		key: {steps: 3, until: wardStart.Add(time.Minute), why: "gang-rolled-back: member a-0 could not be bound"}}})
	w.pass(5 * time.Second)
	w.expect("a-0", v1.PodScheduled, "False Unschedulable binding refused")
	w.expect("a-1", v1.PodScheduled, "False Unschedulable gang-rolled-back: ")
	w.expect("a-0", kube.GangCondition, "False Waiting 2 of 2 members exist, 0 have nodes; since 2026-12-01T08:00:00Z, round 4")
	if w.pass(time.Minute); len(w.events) > 0 {
		t.Errorf("events %q, beside those of the engine", w.events)
	}
}

// nobodyWaits is an engine in which no pod waits in Permit.
type nobodyWaits struct{ fwk.Handle }

func (nobodyWaits) IterateOverWaitingPods(func(fwk.WaitingPod)) {}

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
