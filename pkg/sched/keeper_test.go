package sched

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/kube"
)

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
