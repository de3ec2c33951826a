package sched

import (
	"fmt"
	"maps"
	"slices"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

// gates are the feature gates of the engine whose default is not ours. They
// are process-wide, which is why the scheduler is a process of its own and the
// sandbox's API server is not in it. Every choice is here, with its reason:
var gates = map[featuregate.Feature]bool{
	// Off by default in 1.37: groups of pods as one entity that is simulated
	// in memory and committed whole, and our own choice of where it goes.
	features.GenericWorkload:                 true,
	features.TopologyAwareWorkloadScheduling: true,
	// On by default since 1.35. It writes status.nominatedNodeName before each
	// binding that has PreBind work or waits in Permit: one more write per
	// pod, for consumers (cluster autoscaler) that read the binding as well.
	// Nominations by preemption do not depend on it.
	features.NominatedNodeNameForExpectation: false,
	// Off by default in 1.37 and left off on purpose: with it, a measured
	// outage of the API server ended with free nodes seen as full.
	features.SchedulerAsyncAPICalls: false,
}

// ApplyGates sets the engine's feature gates for this process. It must come
// before Profiles and before the engine is built, and may come twice.
func ApplyGates() error {
	for _, f := range slices.Sorted(maps.Keys(gates)) {
		if err := utilfeature.DefaultMutableFeatureGate.Set(fmt.Sprintf("%s=%t", f, gates[f])); err != nil {
			return fmt.Errorf("feature gate %s: %w", f, err)
		}
	}
	return nil
}
