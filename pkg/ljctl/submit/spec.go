package submit

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// kind is what submit makes from flags.
type kind string

// The kinds of objects.
const (
	kindAuto   kind = "auto"
	kindPod    kind = "pod"
	kindJob    kind = "job"
	kindJobSet kind = "jobset"
)

// spec is the job that the flags describe, all values read and checked.
type spec struct {
	kind           kind
	name, generate string // one of the two
	namespace      string
	image          string
	command        []string

	sizing sizing

	workers     int
	rdma        bool
	cpu, memory *resource.Quantity
	shm         *resource.Quantity

	env        []v1.EnvVar
	envFrom    []v1.EnvFromSource
	mounts     []mount
	workingDir string

	pullPolicy     string
	pullSecret     string
	serviceAccount string
	nodeSelector   map[string]string
	tolerations    []v1.Toleration
	gpuModel       string
	priorityClass  string
	labels         map[string]string
	annotations    map[string]string

	ttl, deadline *time.Duration
	backoffLimit  int32
	restart       string
	scheduler     string
	runtimeClass  string
}

// sizing is what each pod asks of cards, in the cluster's own units.
type sizing struct {
	gpus   int64  // whole cards, under resource
	vendor string // of --vendor
	core   int64
	memory int64
	slice  int64
	// replica is the number of equal shares or slices, 0 for no label.
	replica int
}

// shared tells whether the pod asks for shares or slices.
func (s sizing) shared() bool { return s.core > 0 || s.memory > 0 || s.slice > 0 }

// mount is a volume at a path.
type mount struct {
	source   string // name of the claim or ConfigMap
	config   bool   // a ConfigMap, not a claim
	path     string
	readOnly bool
}
