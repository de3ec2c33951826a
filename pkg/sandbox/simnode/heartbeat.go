package simnode

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// leaseState is the node's lease as it was written last.
type leaseState struct {
	object *coordinationv1.Lease
	there  bool // it has been created
}

// beats is how many portions the nodes are renewed in during one interval.
const beats = 20

// register creates the Node with its addresses and conditions, and its lease.
func (k *Kubelets) register(ctx context.Context, s *nodeState, node *v1.Node) error {
	node.Status.Addresses = append([]v1.NodeAddress{{Type: v1.NodeInternalIP, Address: s.ip}}, node.Status.Addresses...)
	node.Status.Conditions = append(node.Status.Conditions, k.conditions(s.ready)...)
	created, err := k.opts.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("register node %s: %w", node.Name, err)
	}
	if !s.ready {
		return nil
	}
	s.lease.object = k.newLease(created)
	return k.renew(ctx, s)
}

// conditions are what a kubelet says of its node.
func (k *Kubelets) conditions(ready bool) []v1.NodeCondition {
	now := metav1.NewTime(k.clock.Now())
	condition := func(kind v1.NodeConditionType, status v1.ConditionStatus, reason, message string) v1.NodeCondition {
		return v1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	out := []v1.NodeCondition{
		condition(v1.NodeMemoryPressure, v1.ConditionFalse, "KubeletHasSufficientMemory", "simulated"),
		condition(v1.NodeDiskPressure, v1.ConditionFalse, "KubeletHasNoDiskPressure", "simulated"),
		condition(v1.NodePIDPressure, v1.ConditionFalse, "KubeletHasSufficientPID", "simulated"),
	}
	if ready {
		return append(out, condition(v1.NodeReady, v1.ConditionTrue, "KubeletReady", "simulated kubelet"))
	}
	return append(out, condition(v1.NodeReady, v1.ConditionFalse, "KubeletNotReady", "the fleet file says ready: false"))
}

func (k *Kubelets) newLease(node *v1.Node) *coordinationv1.Lease {
	seconds := int32(40)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, Namespace: v1.NamespaceNodeLease,
			// So that the lease goes with its node.
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: &seconds},
	}
}

// renew writes the lease from memory, so that a beat costs one request.
func (k *Kubelets) renew(ctx context.Context, s *nodeState) error {
	leases := k.opts.Client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	lease := s.lease.object.DeepCopy()
	now := metav1.NewMicroTime(k.clock.Now())
	lease.Spec.RenewTime = &now
	var err error
	if !s.lease.there {
		lease, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		if lease, err = leases.Get(ctx, s.name, metav1.GetOptions{}); err == nil {
			s.lease = leaseState{lease, true}
		}
		return err
	case apierrors.IsNotFound(err): // somebody deleted it
		s.lease.object.ResourceVersion, s.lease.there = "", false
		return nil
	case err != nil:
		return fmt.Errorf("renew the lease of node %s: %w", s.name, err)
	}
	s.lease = leaseState{lease, true}
	return nil
}

// beat renews the lease, and says again that the node is ready where somebody
// has said otherwise: the control plane does when the whole process was paused
// for longer than a node may be silent, as on a laptop that slept. A node that
// was deleted and made anew needs a lease of its own, or the old one is
// collected with the old node.
func (k *Kubelets) beat(ctx context.Context, s *nodeState, node *v1.Node) error {
	if refs := s.lease.object.OwnerReferences; len(refs) == 0 || refs[0].UID != node.UID {
		s.lease = leaseState{object: k.newLease(node)}
	}
	if err := k.renew(ctx, s); err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
			return nil
		}
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": k.conditions(true)}})
	if err != nil {
		return err
	}
	_, err = k.opts.Client.CoreV1().Nodes().Patch(ctx, s.name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

// heartbeats renews all leases, a portion at a time.
func (k *Kubelets) heartbeats(ctx context.Context) {
	for turn := 0; ; turn++ {
		k.mu.Lock()
		all := k.order
		k.mu.Unlock()
		every := k.opts.Heartbeat
		if every == 0 {
			every = HeartbeatEvery(len(all))
		}
		select {
		case <-ctx.Done():
			return
		case <-k.clock.After(every / beats):
		}
		var due []*nodeState
		var nodes []*v1.Node
		for i := turn % beats; i < len(all); i += beats {
			if !all[i].ready || all[i].lease.object == nil {
				continue
			}
			// Nobody renews the lease of a node that was deleted.
			if node, err := k.nodes.Get(all[i].name); err == nil {
				due, nodes = append(due, all[i]), append(nodes, node)
			}
		}
		// A missed beat is made good by the next: nodes have several.
		_ = inParallel(ctx, 4, len(due), func(i int) error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return k.beat(ctx, due[i], nodes[i])
		})
	}
}

// WaitReady returns when every node whose kubelet answers is Ready and free of
// the taints that nodes have while they start.
func (k *Kubelets) WaitReady(ctx context.Context) error {
	for {
		waiting := k.unready()
		if waiting == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %s is not ready: %w", waiting, ctx.Err())
		case <-k.clock.After(20 * time.Millisecond):
		}
	}
}

// unready names one node that is not ready, empty if all are.
func (k *Kubelets) unready() string {
	k.mu.Lock()
	all := k.order
	k.mu.Unlock()
	for _, s := range all {
		if !s.ready {
			continue
		}
		node, err := k.nodes.Get(s.name)
		if err != nil {
			return s.name
		}
		for _, t := range node.Spec.Taints {
			if t.Key == v1.TaintNodeNotReady || t.Key == v1.TaintNodeUnreachable {
				return s.name
			}
		}
	}
	return ""
}
