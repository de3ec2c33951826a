package sched

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// blinkers is what the engine's preemption for groups is shown of the cluster:
// while it collects who may be evicted, the chosen victims only, and after that
// everything. When it then tries for each victim whether it may stay, it would
// simulate all members of the group anew; only those on the victim's nodes can
// be concerned, so the others are passed over. That holds for groups whose
// members are decided about node by node.
type blinkers struct {
	fwk.Handle
	victims map[types.UID]bool
	members map[types.UID]bool
	near    bool // only members on the nodes that changed are tried
	opened  bool
	// changed are the nodes of the victim that was put back last.
	changed sets.Set[string]
	tried   bool
}

func newBlinkers(h fwk.Handle, pg fwk.PodGroupInfo, victims map[types.UID]bool) *blinkers {
	b := &blinkers{Handle: h, victims: victims, members: map[types.UID]bool{}, near: true, changed: sets.New[string]()}
	for _, pod := range pg.GetUnscheduledPods() {
		b.members[pod.UID] = true
		b.near = b.near && plain(pod)
	}
	return b
}

// open shows everything from now on.
func (b *blinkers) open() { b.opened = true }

// skips tells whether a member on a node need not be tried.
func (b *blinkers) skips(node string) bool { return b.opened && b.near && !b.changed.Has(node) }

// RunFilterPluginsWithNominatedPods implements fwk.Handle.
func (b *blinkers) RunFilterPluginsWithNominatedPods(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, ni fwk.NodeInfo) *fwk.Status {
	b.tried = true
	if b.skips(ni.Node().Name) {
		return nil
	}
	return b.Handle.RunFilterPluginsWithNominatedPods(ctx, cs, pod, ni)
}

// RunReservePluginsReserve implements fwk.Handle.
func (b *blinkers) RunReservePluginsReserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if b.skips(node) {
		return nil
	}
	return b.Handle.RunReservePluginsReserve(ctx, cs, pod, node)
}

// RunReservePluginsUnreserve implements fwk.Handle.
func (b *blinkers) RunReservePluginsUnreserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) {
	if !b.skips(node) {
		b.Handle.RunReservePluginsUnreserve(ctx, cs, pod, node)
	}
}

// MutableSnapshotSharedLister implements fwk.Handle.
func (b *blinkers) MutableSnapshotSharedLister() fwk.MutableSnapshotSharedLister {
	return &blinkeredLister{b.Handle.MutableSnapshotSharedLister(), b}
}

type blinkeredLister struct {
	fwk.MutableSnapshotSharedLister
	b *blinkers
}

// AddPod implements fwk.MutableSnapshotSharedLister.
func (l *blinkeredLister) AddPod(pi fwk.PodInfo, node string) error {
	switch {
	case !l.b.members[pi.GetPod().UID]:
		if l.b.tried {
			l.b.changed, l.b.tried = sets.New[string](), false
		}
		l.b.changed.Insert(node)
	case l.b.skips(node):
		return nil
	}
	return l.MutableSnapshotSharedLister.AddPod(pi, node)
}

// RemovePod implements fwk.MutableSnapshotSharedLister.
func (l *blinkeredLister) RemovePod(logger klog.Logger, pod *v1.Pod, node string) error {
	if l.b.members[pod.UID] && l.b.skips(node) {
		return nil
	}
	return l.MutableSnapshotSharedLister.RemovePod(logger, pod, node)
}

// NodeInfos implements fwk.SharedLister.
func (l *blinkeredLister) NodeInfos() fwk.NodeInfoLister {
	return &blinkeredNodes{l.MutableSnapshotSharedLister.NodeInfos(), l.b}
}

type blinkeredNodes struct {
	fwk.NodeInfoLister
	b *blinkers
}

// List implements fwk.NodeInfoLister.
func (l *blinkeredNodes) List() ([]fwk.NodeInfo, error) {
	nodes, err := l.NodeInfoLister.List()
	if err != nil || l.b.opened {
		return nodes, err
	}
	out := make([]fwk.NodeInfo, len(nodes))
	for i, ni := range nodes {
		out[i] = &blinkeredNode{ni, l.b}
	}
	return out, nil
}

type blinkeredNode struct {
	fwk.NodeInfo
	b *blinkers
}

// GetPods implements fwk.NodeInfo. Pods that an eviction before has left on
// their way out are shown, too: the engine waits for them.
func (n *blinkeredNode) GetPods() []fwk.PodInfo {
	pods := n.NodeInfo.GetPods()
	if n.b.opened {
		return pods
	}
	var out []fwk.PodInfo
	for _, pi := range pods {
		if n.b.victims[pi.GetPod().UID] || preemption.PodTerminatingByPreemption(pi.GetPod()) {
			out = append(out, pi)
		}
	}
	return out
}
