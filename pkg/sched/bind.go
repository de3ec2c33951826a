package sched

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched/metrics"
)

// How long a binding is tried whose outcome is not known. The cards stay held
// meanwhile: giving them to another pod before that would double-book them if
// the lost answer was a yes.
const (
	bindRetry   = 120 * time.Second
	bindWaitMin = 200 * time.Millisecond
	bindWaitMax = 5 * time.Second
)

// bindings is how many are written at one time. A large group comes with all
// of its own at once, and an API server puts off with 429 what is beyond its
// queues (priority and fairness): those came a second later and more.
const bindings = 64

// Bind writes the Binding with the allocation in its annotations. The API
// server merges them into the pod in the transaction that sets its node name
// (pkg/registry/core/pod/storage, assignPod), so a pod is bound if and only if
// it has its allocation.
func (p *Plugin) Bind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	b := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
	if cycleOf(cs) != nil {
		text := p.state.textOf(pod, node)
		if text == "" {
			return fwk.AsStatus(fmt.Errorf("bind to node %s: no cards are reserved for the pod", node))
		}
		b.Annotations = map[string]string{kube.AllocationAnnotation: text}
	} else if _, forged := pod.Annotations[kube.AllocationAnnotation]; forged {
		// Somebody wrote it before; bound as it is, the pod would hold cards.
		b.Annotations = map[string]string{kube.AllocationAnnotation: ""}
	}
	err := p.stillThere(pod, node)
	if key, ok := keyOf(pod); ok && err == nil {
		if err = p.tryBind(ctx, key, b); err == nil {
			err = p.stillThere(pod, node) // the others took their time
		}
	}
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("bind to node %s: %w", node, err))
	}
	if err := p.bind(ctx, b, metav1.CreateOptions{}); err != nil {
		return fwk.AsStatus(fmt.Errorf("bind to node %s: %w", node, err))
	}
	if a, at := p.state.AllocationOf(pod.UID); at == node {
		p.state.decisions.Load().Placed(klog.FromContext(ctx), pod, a)
	}
	return nil
}

// stillThere tells whether the node has the pod's cards, in health. It may have
// come back with others since they were chosen: a binding is for good.
func (p *Plugin) stillThere(pod *v1.Pod, node string) error {
	a, at := p.state.AllocationOf(pod.UID)
	if at != node {
		return nil
	}
	n, err := p.handle.SharedInformerFactory().Core().V1().Nodes().Lister().Get(node)
	if err != nil {
		return err
	}
	inv := p.state.inventory(n)
	for _, grants := range a.Containers {
		for _, g := range grants {
			if c := inv.Card(g.Card); c == nil || !c.Healthy() {
				return fmt.Errorf("card %s is not there any more, or is sick", g.Card)
			}
		}
	}
	return nil
}

// textOf is the allocation that Reserve made, "" if there is none.
func (s *State) textOf(pod *v1.Pod, node string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if r := s.records[pod.UID]; r != nil && r.node == node && r.alloc != nil {
		return r.text
	}
	return ""
}

// bind returns nil if the pod is bound as wanted, and an error if it is not or
// if nobody could tell in time.
func (p *Plugin) bind(ctx context.Context, b *v1.Binding, o metav1.CreateOptions) error {
	pods := p.handle.ClientSet().CoreV1().Pods(b.Namespace)
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(b), "node", b.Target.Name)
	end, wait := p.clock.Now().Add(bindRetry), bindWaitMin
	for try := 1; ; try++ {
		if err := p.state.mayBind(); err != nil {
			metrics.FenceRefusals.Inc()
			return err
		}
		if try > 1 {
			metrics.BindingRetries.Inc()
		}
		p.slots <- struct{}{}
		err := pods.Bind(ctx, b, o)
		<-p.slots
		if err == nil {
			return nil
		}
		unknown := ambiguous(err, try > 1)
		if try > 1 && apierrors.IsConflict(err) {
			// The node name is set, by an earlier attempt whose answer was
			// lost, or by somebody else: the pod says which.
			live, getErr := pods.Get(ctx, b.Name, metav1.GetOptions{})
			switch {
			case getErr == nil && live.UID == b.UID && live.Spec.NodeName == b.Target.Name &&
				live.Annotations[kube.AllocationAnnotation] == b.Annotations[kube.AllocationAnnotation]:
				logger.Info("Binding had been written by an attempt whose answer was lost", "attempts", try)
				return nil
			case getErr != nil:
				unknown = ambiguous(getErr, true)
			}
		}
		if !unknown || ctx.Err() != nil {
			return err
		}
		if !p.clock.Now().Before(end) {
			return fmt.Errorf("outcome unknown after %d attempts in %v: %w", try, bindRetry, err)
		}
		if try == 1 {
			logger.Info("Binding has an unknown outcome, keeping the cards and trying again", "err", err)
		}
		select {
		case <-p.clock.After(wait):
		case <-ctx.Done():
			return err
		}
		wait = min(2*wait, bindWaitMax)
	}
}

// ambiguous tells whether the write may have happened, or may yet. An answer
// of the 4xx kind is definite, but for: 429 and 401, which pass; and 403 on a
// later attempt, because an API server that has just come back knows no roles
// yet. A refusal by an admission policy is a 403 with other words.
func ambiguous(err error, later bool) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return !errors.Is(err, context.Canceled)
	}
	switch code := status.Status().Code; {
	case code >= http.StatusInternalServerError || code == 0:
		return true
	case code == http.StatusTooManyRequests || code == http.StatusUnauthorized:
		return true
	case code == http.StatusForbidden:
		return later && !strings.Contains(err.Error(), "denied request")
	}
	return false
}
