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
	snap    *internalcache.Snapshot
	state   *sched.State
	cfg     config.Config
	nodes   []fwk.NodeInfo // by name
	filters []filter
	assumed []assumption
	stop    context.CancelFunc
}

// filter is one filter of the profile, to be run on its own.
type filter struct {
	name string
	pre  fwk.PreFilterPlugin // nil if it has no such part
	run  fwk.FilterPlugin
}

// New builds the engine on a snapshot. Only pods that are bound, have not
// ended and are on a node of the snapshot take part; the others hold nothing.
// The objects of the snapshot are read and never changed.
func New(ctx context.Context, s *kube.Snapshot, cfg config.Config) (*Engine, error) {
	ctx, stop := context.WithCancel(ctx)
	e := &Engine{cfg: cfg, state: sched.NewState(cfg), stop: stop}
	e.state.SetNetwork(s.Network())
	if err := e.build(ctx, s); err != nil {
		stop()
		return nil, fmt.Errorf("scheduler engine: %w", err)
	}
	return e, nil
}

func (e *Engine) build(ctx context.Context, s *kube.Snapshot) error {
	if err := sched.ApplyGates(); err != nil {
		return err
	}
	e.snap = internalcache.NewSnapshot(present(s), s.Nodes)
	nodes, err := e.snap.List()
	if err != nil {
		return err
	}
	e.nodes = slices.Clone(nodes)
	slices.SortFunc(e.nodes, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })

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
	e.fw = sc.Profiles[kube.SchedulerName]
	if e.fw == nil {
		return fmt.Errorf("no profile %s", kube.SchedulerName)
	}
	return e.separate(ctx, profile)
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
		p.UID = types.UID("offline/" + p.Namespace + "/" + p.Name)
	}
	p.Spec.NodeName = ""
	return p
}
