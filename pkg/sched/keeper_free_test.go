package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"lj.aliyun.com/kit/pkg/kube"
)

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
