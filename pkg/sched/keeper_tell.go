package sched

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/kube"
)

// The engine says nothing about members that it does not try: their group is
// not complete, or does not agree, or pauses. They get the reason as condition
// PodScheduled, as the pods have that the engine tries, and their first one an
// event. How far the group has come stands on one member as a condition of its
// own; True is the mark of a group that was placed whole.

// tell writes the conditions of the members that differ from what they should
// be.
func (k *Keeper) tell(ctx context.Context, g *standing, phase gang.Phase, pause string, now time.Time) error {
	why := ""
	if !g.core.Tried() {
		why = full(*g.core.Why(now.Unix(), k.state.Config().GangTimeoutSeconds))
	}
	bearer := bearerOf(g)
	for _, p := range g.members {
		var set []v1.PodCondition
		if waits(p) && (why != "" || pause != "" && conditionOf(p, v1.PodScheduled) == nil) {
			text := why
			if text == "" {
				text = pause // members that were tried have what the engine says
			}
			set = put(set, p, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: text}, now)
		}
		old := conditionOf(p, kube.GangCondition)
		stale := p != bearer && old != nil && old.Status != v1.ConditionTrue
		if p == bearer && !(g.core.Marked && placedMark(p)) {
			set = put(set, p, k.progressOf(g, p, phase, now), now)
		}
		if len(set) == 0 && !stale {
			continue
		}
		if err := k.write(ctx, p, set, stale); err != nil {
			return fmt.Errorf("pod %s: %w", klog.KObj(p), err)
		}
	}
	return nil
}

// waits tells whether the scheduler should place the pod: others say why a
// gated one waits.
func waits(p *v1.Pod) bool { return p.Spec.NodeName == "" && len(p.Spec.SchedulingGates) == 0 }

// bearerOf is the member that says how far the group has come: the oldest, and
// once the group was placed the one with the mark, or the oldest with a node.
func bearerOf(g *standing) *v1.Pod {
	if !g.core.Marked {
		return g.members[0]
	}
	for _, p := range g.members {
		if placedMark(p) {
			return p
		}
	}
	for _, p := range g.members {
		if p.Spec.NodeName != "" {
			return p
		}
	}
	return g.members[0]
}

// put adds a condition unless the pod has it.
func put(set []v1.PodCondition, p *v1.Pod, c v1.PodCondition, now time.Time) []v1.PodCondition {
	c.LastTransitionTime = metav1.NewTime(now)
	if old := conditionOf(p, c.Type); old != nil {
		if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
			return set
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	return append(set, c)
}

// progressOf is the condition that says how far the group has come. A group
// that was placed keeps its mark whatever comes.
func (k *Keeper) progressOf(g *standing, bearer *v1.Pod, phase gang.Phase, now time.Time) v1.PodCondition {
	c := v1.PodCondition{Type: kube.GangCondition, Status: v1.ConditionFalse, Reason: string(phase)}
	if g.core.Marked {
		round := 1
		if a, _ := kube.AllocationOf(bearer); a != nil && a.Gang != nil {
			round = a.Gang.Round
		}
		c.Status, c.Reason = v1.ConditionTrue, string(gang.Placed)
		c.Message = fmt.Sprintf("all %d members have had nodes by %s, round %d", g.core.Size, stamp(now), round)
		return c
	}
	if g.core.Wrong != nil {
		c.Message = full(*g.core.Wrong) + "; "
	}
	c.Message += fmt.Sprintf("%d of %d members exist, ", g.core.Members+g.core.Finished, g.core.Size)
	if g.core.Finished > 0 {
		c.Message += fmt.Sprintf("%d of them have finished, ", g.core.Finished)
	}
	c.Message += fmt.Sprintf("%d have nodes; since %s, round %d", g.core.Bound, stamp(time.Unix(g.core.Created, 0)), k.state.round(g.key))
	return c
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// write sets conditions of a pod, and takes the one about its group away where
// that is stale. A pod that has changed meanwhile is left alone, or one that
// was just bound would be shown as waiting; its change leads here again.
func (k *Keeper) write(ctx context.Context, p *v1.Pod, set []v1.PodCondition, stale bool) error {
	var list []any
	for _, c := range set {
		list = append(list, c)
	}
	if stale {
		list = append(list, map[string]string{"type": string(kube.GangCondition), "$patch": "delete"})
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"uid": string(p.UID), "resourceVersion": p.ResourceVersion},
		"status":   map[string]any{"conditions": list},
	})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// news is what an event tells. The same about is told once until something
// else is, or nothing.
type news struct{ about, event, action, text string }

// say writes the event if it is news: on the oldest member that waits.
func (k *Keeper) say(g *standing, f *file, n news) {
	if n.about != "" && n.about != f.said {
		p := g.members[0]
		if w := firstWaiting(g); w != nil {
			p = w
		}
		k.recorder.Eventf(p, nil, v1.EventTypeWarning, n.event, n.action, "%s", n.text)
	}
	f.said = n.about
}

func firstWaiting(g *standing) *v1.Pod {
	for _, p := range g.members {
		if waits(p) {
			return p
		}
	}
	return nil
}

// lastSaid is what the group's last event was about, as the pods still show
// it, so that a new leader does not repeat it.
func lastSaid(g *standing) string {
	p := firstWaiting(g)
	if p == nil {
		return ""
	}
	c := conditionOf(p, v1.PodScheduled)
	if c == nil || c.Status != v1.ConditionFalse {
		return ""
	}
	code, _, _ := strings.Cut(c.Message, ":")
	return code
}
