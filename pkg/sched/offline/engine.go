package offline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched"
)

// Engine is the scheduler on one snapshot. It is not safe for concurrent use.
type Engine struct {
	fw      framework.Framework
	cache   internalcache.Cache
	snap    *internalcache.Snapshot // of cache
	state   *sched.State
	cfg     config.Config
	nodes   []fwk.NodeInfo // by name
	waiting map[types.UID]*v1.Pod
	filters []filter
	kept    []kept
	stop    context.CancelFunc
}

// filter is one filter of the profile, to be run on its own.
type filter struct {
	name string
	pre  fwk.PreFilterPlugin // nil if it has no such part
	run  fwk.FilterPlugin
}

// New builds the engine on a snapshot. Pods that have a node and have not ended
// hold what they hold; those that wait count as members of their groups. The
// objects of the snapshot are read and never changed.
func New(ctx context.Context, s *kube.Snapshot, cfg config.Config) (*Engine, error) {
	if err := sched.ApplyGates(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	// Nodes kept for a job that has waited long are in the memory of a live
	// scheduler; a snapshot does not tell which, and a question makes none.
	quiet := cfg
	quiet.BackfillAgeSeconds = 0
	e := &Engine{cfg: cfg, state: sched.NewState(quiet), snap: internalcache.NewEmptySnapshot(), waiting: map[types.UID]*v1.Pod{}, stop: stop}
	e.state.SetNetwork(s.Network())
	if err := e.build(ctx, s); err != nil {
		stop()
		return nil, fmt.Errorf("scheduler engine: %w", err)
	}
	return e, nil
}

func (e *Engine) build(ctx context.Context, s *kube.Snapshot) error {
	client := kubernetes.New(nil) // filters read informers only; nothing here binds
	factory := informers.NewSharedInformerFactory(client, 0)
	if err := load(factory, s); err != nil {
		return err
	}
	var profile schedulerapi.KubeSchedulerProfile
	registry := sched.NewRegistry(e.state)
	all := int32(100)
	sc, err := scheduler.New(ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(sched.Profiles()...),
		scheduler.WithFrameworkOutOfTreeRegistry(registry),
		scheduler.WithNodeInfoSnapshot(e.snap),
		scheduler.WithPercentageOfNodesToScore(&all),
		scheduler.WithBuildFrameworkCapturer(func(p schedulerapi.KubeSchedulerProfile) { profile = p }))
	if err != nil {
		return err
	}
	e.fw, e.cache = sc.Profiles[kube.SchedulerName], sc.Cache
	if e.fw == nil {
		return fmt.Errorf("no profile %s", kube.SchedulerName)
	}
	if err := e.fill(ctx, s); err != nil {
		return err
	}
	return e.separate(ctx, profile)
}

// fill does what the engine's informers do when they start.
func (e *Engine) fill(ctx context.Context, s *kube.Snapshot) error {
	logger := klog.FromContext(ctx)
	for _, n := range s.Nodes {
		e.cache.AddNode(logger, n)
	}
	e.state.ShowJobs(s.Jobs)
	pods, _ := e.state.Show(distinct(s.Pods))
	for _, p := range pods {
		if p.Spec.NodeName == "" {
			e.waiting[p.UID] = p
			e.cache.AddPodGroupMember(p)
		} else if err := e.cache.AddPod(logger, p); err != nil {
			return fmt.Errorf("pod %s: %w", klog.KObj(p), err)
		}
	}
	for _, g := range e.state.PodGroups() {
		e.cache.AddPodGroup(g)
	}
	if err := e.refresh(ctx); err != nil {
		return err
	}
	nodes, err := e.snap.List()
	if err != nil {
		return err
	}
	e.nodes = slices.Clone(nodes)
	slices.SortFunc(e.nodes, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	return nil
}

// distinct gives pods that lack a uid, or have that of another, one of their
// own: a file need not come from one API server, and the engine keys by it. No
// record is theirs then, and they hold what they ask at most.
func distinct(pods []*v1.Pod) []*v1.Pod {
	out := slices.Clone(pods)
	seen := make(map[types.UID]bool, len(pods))
	for i, p := range pods {
		if p.UID == "" || seen[p.UID] {
			out[i] = p.DeepCopy()
			out[i].UID = uidOf(p)
		}
		seen[out[i].UID] = true
	}
	return out
}

func uidOf(p *v1.Pod) types.UID { return types.UID("offline/" + p.Namespace + "/" + p.Name) }

// refresh brings the node infos up to date with the cache.
func (e *Engine) refresh(ctx context.Context) error {
	return e.cache.UpdateSnapshot(klog.FromContext(ctx), e.snap)
}

// separate makes each filter of the profile once more, with the engine as its
// handle, since the engine itself runs filters only up to the first that
// fails.
func (e *Engine) separate(ctx context.Context, profile schedulerapi.KubeSchedulerProfile) error {
	registry := plugins.NewInTreeRegistry()
	if err := registry.Merge(sched.NewRegistry(e.state)); err != nil {
		return err
	}
	for _, pl := range e.fw.ListPlugins().Filter.Enabled {
		factory, ok := registry[pl.Name]
		if !ok {
			return fmt.Errorf("filter %s: not in the registry", pl.Name)
		}
		var args *schedulerapi.PluginConfig
		for i := range profile.PluginConfig {
			if profile.PluginConfig[i].Name == pl.Name {
				args = &profile.PluginConfig[i]
			}
		}
		if args == nil {
			args = &schedulerapi.PluginConfig{}
		}
		p, err := factory(ctx, args.Args, e.fw)
		if err != nil {
			return fmt.Errorf("filter %s: %w", pl.Name, err)
		}
		run, ok := p.(fwk.FilterPlugin)
		if !ok {
			return fmt.Errorf("filter %s: is a %T", pl.Name, p)
		}
		pre, _ := p.(fwk.PreFilterPlugin)
		e.filters = append(e.filters, filter{pl.Name, pre, run})
	}
	return nil
}

// Close ends what the engine has started.
func (e *Engine) Close() { e.stop() }

// Filters names the filters of the profile in their order.
func (e *Engine) Filters() []string {
	out := make([]string, len(e.filters))
	for i, f := range e.filters {
		out[i] = f.name
	}
	return out
}

// Nodes names the nodes, sorted.
func (e *Engine) Nodes() []string {
	out := make([]string, len(e.nodes))
	for i, n := range e.nodes {
		out[i] = n.Node().Name
	}
	return out
}

// errNoNode is for questions about a node that the snapshot does not have.
var errNoNode = errors.New("no such node in the snapshot")

func (e *Engine) node(name string) (fwk.NodeInfo, error) {
	i, ok := slices.BinarySearchFunc(e.nodes, name, func(n fwk.NodeInfo, name string) int { return strings.Compare(n.Node().Name, name) })
	if !ok {
		return nil, fmt.Errorf("node %s: %w", name, errNoNode)
	}
	return e.nodes[i], nil
}

// fresh gives the pod a uid where it has none, as in a manifest: the engine
// keys what it reserves by it.
func fresh(pod *v1.Pod) *v1.Pod {
	p := pod.DeepCopy()
	if p.UID == "" {
		p.UID = uidOf(p)
	}
	p.Spec.NodeName = ""
	return p
}
