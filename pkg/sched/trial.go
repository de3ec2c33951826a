package sched

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// A binding cannot be taken back, so one that is refused by a policy when
// others of the group are written would leave half a group on its nodes. Each
// member's Binding is therefore written as a dry run first, which passes all of
// admission; only when all have passed are the real ones written.

// trial is the dry run of one commit of a group.
type trial struct {
	members sets.Set[types.UID] // those that have not reported
	err     error
	over    bool // done is closed
	done    chan struct{}
}

// trialWait bounds the wait for the other members' dry runs.
const trialWait = 60 * time.Second

// startTrial begins the dry run of the members that a commit has brought
// together: those that wait, and the last one.
func (p *Plugin) startTrial(key types.NamespacedName, assumed sets.Set[types.UID], last types.UID) {
	t := &trial{members: sets.New(last), done: make(chan struct{})}
	p.gangs.Lock()
	defer p.gangs.Unlock()
	for uid := range assumed {
		if p.handle.GetWaitingPod(uid) != nil && p.trialOf(key, uid) == nil {
			t.members.Insert(uid)
		}
	}
	if t.members.Len() > 1 {
		p.trials[key] = append(p.trials[key], t)
	}
}

// trialOf finds the open trial with the member. The caller holds gangs.
func (p *Plugin) trialOf(key types.NamespacedName, uid types.UID) *trial {
	for _, t := range p.trials[key] {
		if t.members.Has(uid) {
			return t
		}
	}
	return nil
}

// report ends a member's part in a trial. The first that fails ends the trial
// for all; it stays known until each member has come, or one that comes late
// would be bound as if it were alone. The caller holds gangs.
func (p *Plugin) report(key types.NamespacedName, t *trial, uid types.UID, err error) {
	t.members.Delete(uid)
	if t.err == nil {
		t.err = err
	}
	if !t.over && (t.err != nil || t.members.Len() == 0) {
		t.over = true
		close(t.done)
	}
	if t.members.Len() > 0 {
		return
	}
	if p.trials[key] = slices.DeleteFunc(p.trials[key], func(x *trial) bool { return x == t }); len(p.trials[key]) == 0 {
		delete(p.trials, key)
	}
}

// leaveTrial ends a trial whose member gives its cards back before it could
// take part.
func (p *Plugin) leaveTrial(key types.NamespacedName, pod *v1.Pod) {
	p.gangs.Lock()
	defer p.gangs.Unlock()
	if t := p.trialOf(key, pod.UID); t != nil {
		p.report(key, t, pod.UID, fmt.Errorf("member %s of the group has left", pod.Name))
	}
}

// tryBind takes part in the dry run of the group's commit: nil if the API
// server would bind every member.
func (p *Plugin) tryBind(ctx context.Context, key types.NamespacedName, b *v1.Binding) error {
	p.gangs.Lock()
	t := p.trialOf(key, b.UID)
	p.gangs.Unlock()
	if t == nil {
		return nil // alone, as the replacement of a lost member
	}
	err := p.bind(ctx, b, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		err = fmt.Errorf("member %s of the group: %w", b.Name, err)
	}
	p.gangs.Lock()
	p.report(key, t, b.UID, err)
	p.gangs.Unlock()
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return p.giveUp(t, ctx.Err())
	case <-p.clock.After(trialWait):
		return p.giveUp(t, fmt.Errorf("the other members of the group have not been tried within %v", trialWait))
	}
}

// giveUp ends a trial for all when one of its members waits no longer, unless
// it has just ended.
func (p *Plugin) giveUp(t *trial, err error) error {
	p.gangs.Lock()
	defer p.gangs.Unlock()
	if !t.over {
		t.over, t.err = true, err
		close(t.done)
	}
	return t.err
}

// trailing tells whether a trial has failed and not all of its members have
// come back: they hold their cards, and are counted as placed, and will not be.
// The caller holds gangs.
func (p *Plugin) trailing(key types.NamespacedName) bool {
	return slices.ContainsFunc(p.trials[key], func(t *trial) bool { return t.over })
}
