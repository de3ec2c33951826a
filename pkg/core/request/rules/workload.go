package rules

import (
	"strconv"
	"strings"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// What pods that want cards must name, and the label of nodes that take them.
const (
	SchedulerName = "lj-runtimekit-scheduler"
	RuntimeClass  = "lj-runtime"
	EnableLabel   = "lj_runtimekit_enable"
)

// Workload is one object of a manifest, as far as cards are concerned. All
// paths are JSON paths from the object's root.
type Workload struct {
	Kind            string
	Name, Namespace string
	// Owners are the metadata above the pod templates: the object's own, and
	// those of the jobs that it makes.
	Owners    []Meta
	Templates []Template
	// OrderedPods: a StatefulSet that makes its pods one after the other.
	OrderedPods bool
	// LauncherLast: an MPIJob that makes the launcher when the workers run.
	LauncherLast bool
	// Elsewhere names what holds the pod template where the object only has
	// amounts; labels and names cannot be judged then.
	Elsewhere string
}

// Meta is the metadata of an object or of a template.
type Meta struct {
	Path        string // of the metadata
	Labels      map[string]string
	Annotations map[string]string
	// Refused are the label keys whose values the API server does not take;
	// they are reported already.
	Refused map[string]bool
}

// Template is a pod or a pod template.
type Template struct {
	Path string // of what holds metadata and spec, empty for a Pod
	Role string // how the object calls it: "worker", "Master"
	// Pods is how many pods the object makes of it, counted as in Count.
	Pods  int64
	Count string // how Pods comes about, for people; empty if plain
	Job   *Job   // the Job that makes the pods, if one does
	Meta  Meta

	SchedulerName, RuntimeClass, NodeName, DNSPolicy Text
	HostNetwork                                      bool
	NodeSelector                                     map[string]string
	// Terms are the OR-ed terms of the required node affinity, nil if there
	// is none.
	Terms      []Term
	HostPaths  []HostPath
	Containers []Container
}

// Text is a string field that may be absent.
type Text struct {
	Value string
	Set   bool
}

// Job is what a Job or a replicated job says about its pods.
type Job struct {
	Path               string // of its spec
	Parallelism        int64
	Completions        *int64 // nil if not written
	Indexed            bool   // written, or set by the JobSet's defaults
	IgnoresDisruptions bool   // podFailurePolicy does not count evictions
}

// Term is one node selector term: its expressions are AND-ed.
type Term struct{ Exprs []Expr }

// Expr is one requirement on a node label.
type Expr struct {
	Key, Op string // In, NotIn, Exists, DoesNotExist, Gt, Lt
	Values  []string
}

// HostPath is a volume of the host.
type HostPath struct{ Path, Host string }

// Container is a container with its resource lines as written.
type Container struct {
	Path       string
	Name       string
	Kind       request.Kind
	Limits     []Amount
	Requests   []Amount
	Privileged bool
	Add, Drop  []string // capabilities
}

// State is what kind of number an amount is.
type State int

// The states of an amount.
const (
	Count    State = iota // a whole number, 0 or more
	Fraction              // not whole
	Negative
	Garbage // no quantity at all, reported already
)

// Amount is one resource line.
type Amount struct {
	Name, Path string
	// Raw is the text in the file, Value what the API server makes of it if
	// State is Count.
	Raw    string
	Value  int64
	State  State
	Beyond bool   // the amount is larger than Value, which is as far as we count
	Suffix bool   // Raw ends with a multiplier such as Gi or k
	Number string // Raw without the multiplier
}

// Finding is one thing to say about a workload.
type Finding struct {
	Path    string
	Verdict reason.Verdict
	Reason  reason.Reason
	// Hint replaces the code's own advice where more is known.
	Hint string
}

// Fix is the advice, empty if there is none.
func (f Finding) Fix() string {
	if f.Hint != "" {
		return f.Hint
	}
	return f.Reason.Fix()
}

// Options are what holds around the manifest.
type Options struct {
	Config config.Config
	Fleet  *Fleet // nil if the nodes are not known
}

// checker collects the findings of one workload.
type checker struct {
	Options
	w     *Workload
	found []Finding
}

// add notes a finding with the verdict of its code.
func (k *checker) add(path string, r reason.Reason) *Finding {
	v := reason.Invalid
	if i, ok := reason.Lookup(r.Code); ok {
		v = i.Verdict
	}
	k.found = append(k.found, Finding{Path: path, Verdict: v, Reason: r})
	return &k.found[len(k.found)-1]
}

// Join appends a key to a JSON path: plain names with a dot, others in
// brackets, as the API server's own messages do.
func Join(path, key string) string {
	plain := key != "" && strings.IndexFunc(key, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
	switch {
	case !plain:
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// Index appends a list index to a JSON path.
func Index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// spec is the path of a field of the pod's spec.
func (t *Template) spec(field string) string { return Join(Join(t.Path, "spec"), field) }

func (t *Template) label(key string) string { return Join(Join(t.Meta.Path, "labels"), key) }

// amounts are the whole amounts of a container by resource: limits, and
// requests that have no limit, which say as much about the intention.
func (c *Container) amounts() map[string]int64 {
	out := map[string]int64{}
	for _, a := range c.lines() {
		if a.State == Count {
			out[a.Name] = a.Value
		}
	}
	return out
}

// lines are the limits, and the requests without a limit, in file order.
func (c *Container) lines() []Amount {
	out := append([]Amount(nil), c.Limits...)
	for _, r := range c.Requests {
		if find(c.Limits, r.Name) == nil {
			out = append(out, r)
		}
	}
	return out
}

func find(list []Amount, name string) *Amount {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// Pod is the template as the scheduler would see a pod of it.
func (t *Template) Pod(namespace string) request.Pod {
	p := request.Pod{Namespace: namespace, Labels: t.Meta.Labels, Annotations: t.Meta.Annotations}
	for i := range t.Containers {
		c := &t.Containers[i]
		p.Containers = append(p.Containers, request.Container{Name: c.Name, Kind: c.Kind, Resources: c.amounts()})
	}
	return p
}
