package request

import (
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/reason"
)

// Mode is the way in which a container takes cards.
type Mode string

// The modes. A container has at most one.
const (
	None  Mode = ""
	Whole Mode = "whole"
	TDM   Mode = "tdm"
	MIG   Mode = "mig"
)

// Kind is when a container runs.
type Kind int

// The kinds of containers. A Sidecar is an init container that restarts: it
// runs from its turn to the end of the pod.
const (
	App Kind = iota
	Init
	Sidecar
)

// Container is the part of a container that decides about cards.
type Container struct {
	Name string
	Kind Kind
	// Resources has the limits under the names of config.Config.Resources, in
	// the resource's own units; others may be present and are left alone.
	Resources map[string]int64
}

// Pod is the part of a pod that decides about cards. Containers are in the
// order of the manifest: init containers and sidecars first, then apps.
type Pod struct {
	Namespace, Name, UID string
	Labels, Annotations  map[string]string
	Containers           []Container
}

// Ask is what one container wants.
type Ask struct {
	Container string `json:"container"`
	Kind      Kind   `json:"-"`
	Mode      Mode   `json:"mode"`
	// Count is how many different cards.
	Count int `json:"count"`
	// NVIDIAOnly: asked by NVIDIA's own name, so no other vendor will do.
	NVIDIAOnly bool `json:"nvidiaOnly,omitempty"`
	// Core is percent of each card, 0 for no limit on compute.
	Core int64 `json:"core,omitempty"`
	// MemMiB is memory of each card; 0 for none. For MIG it is a floor on the
	// profile's usable memory.
	MemMiB int64 `json:"memMiB,omitempty"`
	// Slices is the number of compute slices, for MIG.
	Slices int `json:"slices,omitempty"`
	// From and To are the phases, inclusive, in which the container runs.
	From int `json:"-"`
	To   int `json:"-"`
}

// Request is what a pod asks for, as understood.
type Request struct {
	Namespace, Name, UID string
	Asks                 []Ask
	// Phases is the number of phases of the pod's life that matter: one for
	// each init container, and one for the apps.
	Phases int
	// RDMA: the switch is on, cards should lie near RDMA NICs.
	RDMA bool
	// Resources are the requested names under the suite's control, sorted as
	// config.Config.Resources. A node must report each of them.
	Resources []string
	// Unit is the unit in which the gpu-memory amounts were read.
	Unit config.Unit
	// Replica is the label's value, 1 if it is not there or has no meaning.
	Replica int
	// NodePolicy and CardPolicy are the pod's own, empty if it says nothing
	// that is understood.
	NodePolicy, CardPolicy config.Policy
}

// Empty tells whether the pod asks for no card at all. The RDMA switch alone
// is not a card.
func (r *Request) Empty() bool { return len(r.Asks) == 0 }

// Cards is how many different cards the pod needs at least in its widest
// phase. Whole cards are each container's own; shares of several containers
// may lie together as far as their compute allows, and so may slices, but
// never a share and a slice on one card.
func (r *Request) Cards() int {
	widest := 0
	for p := 0; p < r.Phases; p++ {
		var whole, tdm, cut, core, slices int
		for _, a := range r.Asks {
			if p < a.From || p > a.To {
				continue
			}
			switch a.Mode {
			case Whole:
				whole += a.Count
			case TDM:
				tdm, core = max(tdm, a.Count), core+a.Count*int(a.Core)
			case MIG:
				cut, slices = max(cut, a.Count), slices+a.Count*a.Slices
			}
		}
		tdm = max(tdm, (core+99)/100)
		cut = max(cut, (slices+migSlices-1)/migSlices)
		widest = max(widest, whole+tdm+cut)
	}
	return widest
}

// migSlices is how many compute slices a card has.
const migSlices = mig.ComputeSlices

// Parse reads a pod as the scheduler does. It returns either a request, which
// may be Empty, or the reasons why the pod can never be placed as written.
// gpu-core 0 counts as absent here; validate refuses it.
func Parse(p Pod, c config.Config) (*Request, []reason.Reason) {
	r := &Request{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Unit: c.Unit, Replica: 1,
		NodePolicy: config.PolicyNamed(p.Annotations[config.NodePolicyKey]),
		CardPolicy: config.PolicyNamed(p.Annotations[config.CardPolicyKey])}
	var bad []reason.Reason
	named := map[string]bool{}
	phases := phasesOf(p.Containers)
	r.Phases = phases.count
	for i, ct := range p.Containers {
		for _, res := range c.Resources() {
			if ct.Resources[res] > 0 {
				named[res] = true
			}
		}
		r.RDMA = r.RDMA || ct.Resources[c.RDMA()] == 1
		a, rs := askOf(ct, c)
		bad = append(bad, rs...)
		if a.Mode == None || len(rs) > 0 {
			continue
		}
		a.From, a.To = phases.from[i], phases.to[i]
		r.Asks = append(r.Asks, a)
	}
	for _, res := range c.Resources() {
		if named[res] {
			r.Resources = append(r.Resources, res)
		}
	}
	if rs := r.applyReplica(p.Labels); len(rs) > 0 {
		bad = append(bad, rs...)
	}
	if len(bad) > 0 {
		return nil, bad
	}
	return r, nil
}

// applyReplica multiplies the cards of shares and slices. The label is free
// text that other software uses too, so it is read only where it counts.
func (r *Request) applyReplica(labels map[string]string) []reason.Reason {
	text, ok := labels[ReplicaLabel]
	if !ok {
		return nil
	}
	divided := false
	for _, a := range r.Asks {
		divided = divided || a.Mode == TDM || a.Mode == MIG
	}
	if !divided {
		return nil
	}
	n, code := ParseCount(text, "replica")
	if code != "" {
		return []reason.Reason{{Code: code, Device: ReplicaLabel, Detail: []string{text}}}
	}
	r.Replica = n
	for i := range r.Asks {
		if r.Asks[i].Mode != Whole {
			r.Asks[i].Count = n
		}
	}
	return nil
}

type phases struct {
	count    int
	from, to []int
}

// phasesOf numbers the phases: init container k runs alone in phase k, apps
// run in the last, a sidecar from its turn to the last.
func phasesOf(cs []Container) phases {
	inits := 0
	for _, c := range cs {
		if c.Kind == Init {
			inits++
		}
	}
	p := phases{count: inits + 1, from: make([]int, len(cs)), to: make([]int, len(cs))}
	turn := 0
	for i, c := range cs {
		switch c.Kind {
		case Init:
			p.from[i], p.to[i] = turn, turn
			turn++
		case Sidecar:
			p.from[i], p.to[i] = turn, inits
		default:
			p.from[i], p.to[i] = inits, inits
		}
	}
	return p
}
