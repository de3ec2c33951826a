package simnode

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/tools/cache"
)

// sync brings one pod to where it is at this moment and returns how long until
// it moves on by itself.
func (k *Kubelets) sync(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, nil
	}
	pod, err := k.pods.Pods(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		k.forget(key)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		k.forget(key)
		return 0, k.remove(ctx, pod)
	}
	t, err := k.track(key, pod)
	if t == nil {
		return 0, err
	}
	wake := t.step(pod, k.opts.Timing, k.clock.Now())
	if err := k.report(ctx, key, pod, t); err != nil {
		return 0, err
	}
	if t.stage == ended {
		k.release(t)
		return 0, k.remove(ctx, pod)
	}
	return wake, nil
}

// remove does the kubelet's last act for a deleted pod that has ended.
func (k *Kubelets) remove(ctx context.Context, pod *v1.Pod) error {
	if pod.DeletionTimestamp == nil || !k.mine(pod.Spec.NodeName) {
		return nil
	}
	now := int64(0)
	err := k.opts.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (k *Kubelets) mine(node string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.byName[node]
	return ok && s.ready
}

// track finds the pod's run, or admits the pod and begins one. It returns nil
// for pods of nodes that are not simulated, not ready or gone.
func (k *Kubelets) track(key string, pod *v1.Pod) (*tracked, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t, ok := k.runs[key]; ok && t.uid == pod.UID {
		return t, nil
	} else if ok {
		k.releaseLocked(t) // an earlier pod of that name
		delete(k.runs, key)
	}
	s, ok := k.byName[pod.Spec.NodeName]
	if !ok || !s.ready {
		return nil, nil
	}
	node, err := k.nodes.Get(s.name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	now := k.clock.Now()
	t := &tracked{uid: pod.UID, node: s, host: host{nodeIP: s.ip}, run: run{admitted: now, since: now}}
	if pod.DeletionTimestamp == nil {
		k.admitLocked(t, node, pod)
	}
	k.podIPs++
	t.host.podIP = fmt.Sprintf("10.%d.%d.%d", 128+k.podIPs>>16&0x7f, k.podIPs>>8&0xff, k.podIPs&0xff)
	k.runs[key] = t
	return t, nil
}

// admitLocked decides whether the pod starts, and books what it takes.
func (k *Kubelets) admitLocked(t *tracked, node *v1.Node, pod *v1.Pod) {
	h := holding{demand: demandOf(pod)}
	demands := make([]demand, 0, len(t.node.held))
	uses := make([]map[string]use, 0, len(t.node.held))
	for _, o := range t.node.held {
		demands = append(demands, o.demand)
		if o.uses != nil {
			uses = append(uses, o.uses)
		}
	}
	if t.rejected = admit(k.opts.Config, node, demands, pod, h.demand); t.rejected != nil {
		t.finish(exit{code: 1, reason: t.rejected.Reason, at: t.admitted})
		return
	}
	t.behaviour, t.configErr = behaviourOf(pod)
	if needsAllocation(k.opts.Config, pod) {
		if h.uses, t.refusal = claim(k.opts.Config, node, uses, pod); t.refusal != nil {
			t.refusal = fmt.Errorf("failed to create containerd task: OCI runtime create failed: lj-runtime: %w", t.refusal)
		}
	}
	t.node.held[pod.UID] = h
}

func (k *Kubelets) forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t, ok := k.runs[key]; ok {
		k.releaseLocked(t)
		delete(k.runs, key)
	}
}

func (k *Kubelets) release(t *tracked) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.releaseLocked(t)
}

func (k *Kubelets) releaseLocked(t *tracked) { delete(t.node.held, t.uid) }

// report writes the pod's status if it has changed since the last report. The
// patch is made against what was reported, not against the informer's copy,
// which may be older.
func (k *Kubelets) report(ctx context.Context, key string, pod *v1.Pod, t *tracked) error {
	base := t.reported
	if base == nil {
		base = &pod.Status
	}
	next := t.status(pod, base, t.host)
	if t.reported != nil && apiequality.Semantic.DeepEqual(base, next) {
		return nil
	}
	patch, err := statusPatch(pod.UID, base, next)
	if err != nil {
		return err
	}
	_, err = k.opts.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err): // gone, or another pod of that name
		k.forget(key)
		return nil
	case err != nil:
		return err
	}
	k.tell(pod, t)
	t.reported = next
	return nil
}

func statusPatch(uid types.UID, from, to *v1.PodStatus) ([]byte, error) {
	meta := metav1.ObjectMeta{UID: uid}
	oldData, err := json.Marshal(v1.Pod{Status: *from})
	if err != nil {
		return nil, err
	}
	newData, err := json.Marshal(v1.Pod{ObjectMeta: meta, Status: *to})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(oldData, newData, v1.Pod{})
}

// tell records what went wrong as the events that kubelet records. Good news
// has none: thousands of pods would drown the API server in it.
func (k *Kubelets) tell(pod *v1.Pod, t *tracked) {
	switch {
	case t.rejected != nil:
		k.recorder.Event(pod, v1.EventTypeWarning, t.rejected.Reason, t.rejected.Message)
	case t.configErr != nil:
		k.recorder.Event(pod, v1.EventTypeWarning, "Failed", "Error: "+t.configErr.Error())
	case t.refusal != nil && t.last != nil:
		k.recorder.Event(pod, v1.EventTypeWarning, "Failed", "Error: "+t.refusal.Error())
	}
}
