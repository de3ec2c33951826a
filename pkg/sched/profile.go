package sched

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"lj.aliyun.com/kit/pkg/kube"
)

// weight lets the choice of cards decide between nodes before the in-tree
// scores (3 for taints, 2 for affinity and spread), which still break ties.
const weight = 10

// replaced are the in-tree plugins that the profile leaves out.
var replaced = map[string]string{
	names.DefaultBinder:    "LJDevices binds: the allocation travels in the Binding",
	names.NodeResourcesFit: "LJNodeResourcesFit takes its place",
	// Both score nodes by what costs time and says nothing about cards; on
	// 5,000 nodes they were a third of the time of a cycle.
	names.NodeResourcesBalancedAllocation: "would even CPU out against packing cards",
	names.ImageLocality:                   "GPU images are pulled once per node anyway",
	names.PrioritySort:                    "LJQueueSort takes its place",
	names.DefaultPreemption:               "LJPreemption takes its place",
	// A profile has one plugin that makes placements, and one label is not
	// the four tiers of a network.
	names.TopologyPlacementGenerator: "LJDevices makes the placements of groups",
	names.PodGroupPodsCount:          "LJDevices orders the placements of groups",
}

// NewRegistry has the plugins that Profiles names beyond the in-tree ones.
// All frameworks built from one registry share state.
func NewRegistry(state *State) frameworkruntime.Registry {
	return frameworkruntime.Registry{
		Name: func(_ context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			a, err := argsOf(args)
			if err != nil {
				return nil, err
			}
			if a != (Args{}) {
				state.SetArgs(a)
			}
			return newPlugin(state, h)
		},
		SortName: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return Sort{}, nil },
		FitName: func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			return newFit(ctx, state, args, h)
		},
		PreemptionName: func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			return newPreemption(ctx, state, args, h)
		},
	}
}

// Profiles is the scheduler's only profile. It starts from the engine's
// defaults, so that taints, affinity, ports, volumes, spread and preemption
// are judged by Kubernetes' own code.
func Profiles() []schedulerapi.KubeSchedulerProfile {
	cfg, err := latest.Default()
	if err != nil {
		// The defaults are compiled in: an error here is a broken build, and
		// an empty list is refused by the engine with its own words.
		return nil
	}
	p := cfg.Profiles[0]
	p.SchedulerName = kube.SchedulerName
	p.Plugins.MultiPoint.Enabled = enabled(p.Plugins.MultiPoint.Enabled)
	// Fails for a group that was refused before its pods were simulated, since
	// it then finds no state of its own.
	p.Plugins.PodGroupPostFilter.Disabled = append(p.Plugins.PodGroupPostFilter.Disabled, schedulerapi.Plugin{Name: names.DynamicResources})
	for i := range p.PluginConfig {
		switch a := p.PluginConfig[i].Args.(type) {
		case *schedulerapi.NodeResourcesFitArgs:
			p.PluginConfig = append(p.PluginConfig, schedulerapi.PluginConfig{Name: FitName, Args: a})
		case *schedulerapi.DefaultPreemptionArgs:
			p.PluginConfig = append(p.PluginConfig, schedulerapi.PluginConfig{Name: PreemptionName, Args: a})
		case *schedulerapi.PodTopologySpreadArgs:
			// The system defaults spread the pods of a Service or ReplicaSet
			// over nodes and zones, against packing, and switch off the
			// engine's batching of equal pods. Constraints of the pod hold.
			a.DefaultingType = schedulerapi.ListDefaulting
			a.DefaultConstraints = nil
		}
	}
	return []schedulerapi.KubeSchedulerProfile{p}
}

// enabled puts the suite's plugins where NodeResourcesFit was: behind the
// cheap checks of name, cordon, taint and affinity, whose words are better
// where they apply, and before volumes and spread, which cost more.
func enabled(stock []schedulerapi.Plugin) []schedulerapi.Plugin {
	var out []schedulerapi.Plugin
	for _, pl := range stock {
		if pl.Name == names.NodeResourcesFit {
			out = append(out, schedulerapi.Plugin{Name: Name, Weight: weight}, schedulerapi.Plugin{Name: FitName, Weight: pl.Weight})
		}
		if pl.Name == names.PrioritySort {
			out = append(out, schedulerapi.Plugin{Name: SortName})
		}
		if pl.Name == names.DefaultPreemption {
			out = append(out, schedulerapi.Plugin{Name: PreemptionName})
		}
		if _, gone := replaced[pl.Name]; !gone {
			out = append(out, pl)
		}
	}
	return out
}

// CheckProfiles tells whether the engine's defaults could be read and contain
// what the profile is built on; an upgrade of the engine that renames a plugin
// shows here and not as pods without cards.
func CheckProfiles() error {
	ps := Profiles()
	if len(ps) != 1 {
		return fmt.Errorf("scheduler profile: the engine's defaults cannot be read")
	}
	have := map[string]bool{}
	for _, pl := range ps[0].Plugins.MultiPoint.Enabled {
		have[pl.Name] = true
	}
	for _, want := range []string{Name, FitName, SortName, PreemptionName, names.GangScheduling, names.TaintToleration, names.NodeAffinity} {
		if !have[want] {
			return fmt.Errorf("scheduler profile: plugin %s is missing", want)
		}
	}
	return nil
}
