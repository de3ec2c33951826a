package sched

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"lj.aliyun.com/kit/pkg/kube"
)

// packer is a scheduler's profile in logical time: pods come and go one at a
// time on a snapshot, every node is looked at, and equal scores are broken by
// name. What it does depends on the profile alone.
type packer struct {
	t      testing.TB
	ctx    context.Context
	fw     framework.Framework
	snap   *internalcache.Snapshot
	nodes  []fwk.NodeInfo
	placed map[types.UID]packed
}

type packed struct {
	pod *v1.Pod
	cs  fwk.CycleState
}

func newPacker(t testing.TB, nodes []*v1.Node, e entrant) *packer {
	t.Helper()
	p := &packer{t: t, ctx: t.Context(), snap: internalcache.NewSnapshot(nil, nodes), placed: map[types.UID]packed{}}
	client := fake.NewClientset()
	engine, err := scheduler.New(p.ctx, client, scheduler.NewInformerFactory(client, 0, nil), nil,
		func(string) events.EventRecorderLogger { return silent{} },
		scheduler.WithProfiles(e.profiles...), scheduler.WithFrameworkOutOfTreeRegistry(e.registry), scheduler.WithNodeInfoSnapshot(p.snap))
	if err != nil {
		t.Fatal(err)
	}
	p.fw = engine.Profiles[kube.SchedulerName]
	// The engine allows pods to come and go in any order within a session only.
	if err := p.snap.StartMutations(); err != nil {
		t.Fatal(err)
	}
	if p.nodes, err = p.snap.List(); err != nil {
		t.Fatal(err)
	}
	return p
}

// place puts the pod where the profile wants it, and tells whether it fits
// anywhere.
func (p *packer) place(pod *v1.Pod) bool {
	p.t.Helper()
	cs := framework.NewCycleState()
	node := p.choose(cs, pod)
	if node == "" {
		return false
	}
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.snap.AddPod(info, node); err != nil {
		p.t.Fatal(err)
	}
	if st := p.fw.RunReservePluginsReserve(p.ctx, cs, pod, node); !st.IsSuccess() {
		p.t.Fatal(st.AsError())
	}
	p.placed[pod.UID] = packed{pod, cs}
	return true
}

// remove ends a placed pod.
func (p *packer) remove(uid types.UID) {
	p.t.Helper()
	was := p.placed[uid]
	delete(p.placed, uid)
	p.fw.RunReservePluginsUnreserve(p.ctx, was.cs, was.pod, was.pod.Spec.NodeName)
	if err := p.snap.RemovePod(klog.FromContext(p.ctx), was.pod, was.pod.Spec.NodeName); err != nil {
		p.t.Fatal(err)
	}
}

// choose names the best node, "" if the pod fits on none.
func (p *packer) choose(cs fwk.CycleState, pod *v1.Pod) string {
	p.t.Helper()
	if _, st, _ := p.fw.RunPreFilterPlugins(p.ctx, cs, pod); !st.IsSuccess() {
		p.t.Fatalf("%s: %s", pod.Name, st.Message())
	}
	var fit []fwk.NodeInfo
	for _, n := range p.nodes {
		switch st := p.fw.RunFilterPlugins(p.ctx, cs, pod, n); {
		case st.IsSuccess():
			fit = append(fit, n)
		case !st.IsRejected():
			p.t.Fatal(st.AsError())
		}
	}
	if len(fit) == 0 {
		return ""
	}
	if st := p.fw.RunPreScorePlugins(p.ctx, cs, pod, fit); !st.IsSuccess() {
		p.t.Fatal(st.AsError())
	}
	scores, st := p.fw.RunScorePlugins(p.ctx, cs, pod, fit)
	if !st.IsSuccess() {
		p.t.Fatal(st.AsError())
	}
	best := scores[0]
	for _, s := range scores[1:] {
		if s.TotalScore > best.TotalScore || s.TotalScore == best.TotalScore && s.Name < best.Name {
			best = s
		}
	}
	return best.Name
}
