package sched

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/core/reason"
)

// A group that is bound in part (the scheduler was killed, a node was lost
// between two bindings, …) holds cards and does no work. The engine completes
// it first of all groups of its priority. Where that does not help in time, its
// members are evicted, so that others can work and the group is tried whole.

// freeSteps bounds how far the time between two evictions of one group grows:
// each is twice the one before.
const freeSteps = 6

// freeAgain is the pause after an eviction: one that was refused, because a
// disruption budget has no room, is tried again then, and pods that were
// evicted have been replaced.
const freeAgain = time.Minute

// free gives up a half-bound group's nodes if its time is over and nothing is
// lost by it. next is when to look again, n what there is to tell.
func (k *Keeper) free(ctx context.Context, g *standing, f *file, now time.Time) (next time.Duration, n news) {
	timeout := time.Duration(k.state.Config().GangTimeoutSeconds) * time.Second
	if d := f.progress.Add(timeout << min(f.evictions, freeSteps)).Sub(now); d > 0 {
		return d, news{}
	}
	n.about = f.said
	if d := f.notBefore.Sub(now); d > 0 {
		return d, n
	}
	if why := immovable(g); why != "" {
		return 0, stuck(g, why, why)
	}
	if k.state.underway(g.members) || k.state.mayBind() != nil {
		return again, n
	}
	done, err := k.evict(ctx, g)
	if done > 0 {
		n = news{about: fmt.Sprintf("eviction %d", f.evictions), event: "GangRolledBack", action: "Evicting", text: fmt.Sprintf(
			"%d of the group's %d members had nodes, and the others got none within %v: those are evicted, and the group is placed whole or not at all",
			g.core.Bound, g.core.Size, now.Sub(f.progress).Round(time.Second))}
	}
	f.notBefore = now.Add(freeAgain)
	if err != nil {
		klog.FromContext(ctx).Info("A half-bound group was not evicted whole, trying again", "group", g.key, "evicted", done, "bound", g.core.Bound, "err", err)
		if done == 0 {
			n = stuck(g, "refused", err.Error())
		}
		return freeAgain, n
	}
	klog.FromContext(ctx).Info("A half-bound group was evicted", "group", g.key, "evicted", done, "size", g.core.Size)
	f.evictions++
	f.progress = now
	return timeout, n
}

// stuck tells that a group stays half-bound, and why; kind is the same as long
// as that is no news.
func stuck(g *standing, kind, why string) news {
	r := reason.Reason{Code: "gang-half-bound", Want: int64(g.core.Size), Free: int64(g.core.Bound + g.core.Finished)}
	return news{about: string(r.Code) + " " + kind, event: "GangHalfBound", action: "Scheduling",
		text: full(r) + "; they are not evicted: " + why}
}

// immovable is why a half-bound group's members must stay, "" if they may be
// evicted: work would be lost, or their Jobs would count them as failures.
func immovable(g *standing) string {
	if g.core.Finished > 0 {
		return "members have finished"
	}
	for _, p := range g.members {
		o := metav1.GetControllerOf(p)
		if o == nil {
			return "pod " + p.Name + " has no Job"
		}
		if g.jobs[o.UID] == nil {
			return "job " + o.Name + " is not known"
		}
	}
	for _, j := range g.jobs {
		if j.Status.Failed > 0 {
			return "members of job " + j.Name + " have failed"
		}
		if !ignoresDisruption(j.Spec.PodFailurePolicy) {
			return "job " + j.Name + " would count them as failures; its podFailurePolicy does not ignore DisruptionTarget"
		}
	}
	return ""
}

// ignoresDisruption tells whether a Job does not count an evicted pod as a
// failure. The first rule that fits decides, and one on exit codes fits a pod
// that was told to end.
func ignoresDisruption(policy *batchv1.PodFailurePolicy) bool {
	if policy == nil {
		return false
	}
	for _, r := range policy.Rules {
		if r.Action != batchv1.PodFailurePolicyActionIgnore {
			return false
		}
		for _, c := range r.OnPodConditions {
			if c.Type == v1.DisruptionTarget && (c.Status == v1.ConditionTrue || c.Status == "") {
				return true
			}
		}
	}
	return false
}

// underway tells whether a binding of one of the pods is on its way.
func (s *State) underway(pods []*v1.Pod) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range pods {
		if r := s.records[p.UID]; p.Spec.NodeName == "" && r != nil && r.assumed {
			return true
		}
	}
	return false
}

// evict evicts the members that have nodes until one is refused, and counts
// them.
func (k *Keeper) evict(ctx context.Context, g *standing) (done int, err error) {
	for _, p := range g.members {
		if p.Spec.NodeName == "" {
			continue
		}
		uid := p.UID
		err := k.client.PolicyV1().Evictions(p.Namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return done, fmt.Errorf("evict pod %s: %w", p.Name, err)
		}
		done++
	}
	return done, nil
}
