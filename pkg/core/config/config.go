package config

import (
	"fmt"
	"strings"
)

// Unit is what one gpu-memory counts.
type Unit string

// The two units a cluster can run in. A cluster runs in exactly one.
const (
	GiB Unit = "GiB"
	MiB Unit = "MiB"
)

// Units lists every Unit.
func Units() []Unit { return []Unit{GiB, MiB} }

// MiB returns how many MiB one gpu-memory is worth in this unit.
func (u Unit) MiB() int64 {
	if u == MiB {
		return 1
	}
	return 1024
}

// ParseUnit accepts "GiB" and "MiB", whatever the case.
func ParseUnit(s string) (Unit, error) {
	for _, u := range Units() {
		if strings.EqualFold(s, string(u)) {
			return u, nil
		}
	}
	return "", fmt.Errorf("memory unit %q: must be GiB or MiB", s)
}

// MiBStep is the smallest amount and the step of gpu-memory in MiB mode.
const MiBStep = 128

// Policy orders candidates that all fit.
type Policy string

// Binpack fills what is already in use, Spread takes what is least in use.
const (
	Binpack Policy = "binpack"
	Spread  Policy = "spread"
)

// Policies lists every Policy.
func Policies() []Policy { return []Policy{Binpack, Spread} }

// ParsePolicy accepts the names of Policies.
func ParsePolicy(s string) (Policy, error) {
	for _, p := range Policies() {
		if s == string(p) {
			return p, nil
		}
	}
	return "", fmt.Errorf("policy %q: must be binpack or spread", s)
}

// Config is what a cluster has settled. The zero value is not usable; start
// from Default.
type Config struct {
	// Prefix is the domain of the shared resources: Prefix + "/gpu-core".
	Prefix string
	// Unit is what one gpu-memory counts.
	Unit Unit
	// UnitKnown is false where nobody has said which unit the cluster runs in
	// and Unit is only the default: validate then says so where it matters.
	UnitKnown bool
	// MIGModels are the card models that may be cut into MIG instances. A
	// model matches when one of these is a whole word of its product name.
	MIGModels []string
	// NodePolicy orders nodes, CardPolicy the cards of one node.
	NodePolicy Policy
	CardPolicy Policy
	Topology   Topology
	// GangTimeoutSeconds is the time from the first member's creation after
	// which an incomplete group is reported and backs off.
	GangTimeoutSeconds int64
	// BackfillAgeSeconds is the age at which the best domain of the job that
	// has waited longest is closed to pods that could delay it; 0 is never.
	BackfillAgeSeconds int64
}

// Default returns the settings that hold where the cluster says nothing.
func Default() Config {
	topology, _ := TopologyPreset(DefaultPreset)
	return Config{
		Prefix:             "aliyun.com",
		Unit:               GiB,
		MIGModels:          []string{"A100", "H800"},
		NodePolicy:         Binpack,
		CardPolicy:         Binpack,
		Topology:           topology,
		GangTimeoutSeconds: 180,
		BackfillAgeSeconds: 600,
	}
}

// Names of the resources under the cluster's prefix. NVIDIA's own name is
// fixed: see NvidiaGPU.
func (c Config) GPU() string       { return c.Prefix + "/gpu" }
func (c Config) GPUCore() string   { return c.Prefix + "/gpu-core" }
func (c Config) GPUMemory() string { return c.Prefix + "/gpu-memory" }
func (c Config) GPUSlice() string  { return c.Prefix + "/gpu-slice" }
func (c Config) RDMA() string      { return c.Prefix + "/rdma" }

// NvidiaGPU is the community name of a whole NVIDIA card.
const NvidiaGPU = "nvidia.com/gpu"

// MinMemberLabel is the pod label with the size of the gang.
func (c Config) MinMemberLabel() string { return c.Prefix + "/min-member" }

// Resources lists the resource names that the suite decides on, in the order
// in which people should read them.
func (c Config) Resources() []string {
	return []string{NvidiaGPU, c.GPU(), c.GPUCore(), c.GPUMemory(), c.GPUSlice(), c.RDMA()}
}

// IsResource tells whether name is one of Resources.
func (c Config) IsResource(name string) bool {
	if name == NvidiaGPU {
		return true
	}
	rest, ok := strings.CutPrefix(name, c.Prefix+"/")
	if !ok {
		return false
	}
	switch rest {
	case "gpu", "gpu-core", "gpu-memory", "gpu-slice", "rdma":
		return true
	}
	return false
}

// MIGModelAllowed tells whether cards of this product name may be cut by MIG.
// The name is split into words at blanks, dashes and underscores, so that
// "A100-SXM4-40GB" matches A100 and "NVIDIA A800-SXM4-80GB" does not.
func (c Config) MIGModelAllowed(model string) bool {
	words := strings.FieldsFunc(model, func(r rune) bool { return r == ' ' || r == '-' || r == '_' })
	for _, w := range words {
		for _, m := range c.MIGModels {
			if strings.EqualFold(w, m) {
				return true
			}
		}
	}
	return false
}
