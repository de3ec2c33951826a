package rules

import (
	"fmt"
	"sort"
	"strings"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/place"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// Fleet is the nodes that there are.
type Fleet struct{ Nodes []FleetNode }

// FleetNode is a node with the labels that selectors look at.
type FleetNode struct {
	Node   *cluster.Node
	Labels map[string]string
}

// fleet asks whether the nodes could take a pod of the template if they were
// empty. Whether they can now is why-pending's question.
func (k *checker) fleet(t *Template) {
	if k.Fleet == nil {
		return
	}
	r, bad := request.Parse(t.Pod(k.w.Namespace), k.Config)
	if len(bad) > 0 || r.Empty() {
		return // judged by its values already
	}
	nodes := k.candidates(t)
	if len(nodes) == 0 {
		return
	}
	var fit []FleetNode
	refused := map[reason.Code]*tally{}
	for _, n := range nodes {
		empty := *n.Node
		empty.Holds = nil
		why := place.NewView(&empty, k.Config).Check(r)
		if len(why) == 0 {
			fit = append(fit, n)
			continue
		}
		count(refused, why[0])
	}
	if len(fit) == 0 {
		k.unfit(t, r, refused, len(nodes))
		k.vendors(t, r, nodes)
		return
	}
	k.vendors(t, r, fit)
}

// candidates are the enabled nodes that the template selects. Where there is
// none, that is the finding.
func (k *checker) candidates(t *Template) []FleetNode {
	enabled := 0
	var out []FleetNode
	for _, n := range k.Fleet.Nodes {
		if n.Node.Gate != nil {
			continue
		}
		enabled++
		if t.Selects(n.Labels) {
			out = append(out, n)
		}
	}
	switch {
	case enabled == 0:
		k.add(t.spec("containers"), reason.Reason{Code: "no-enabled-node"})
	case len(out) == 0:
		k.add(t.spec(selectorField(t)), reason.Reason{Code: "no-node-selected"})
	}
	return out
}

// tally is one refusal code over nodes: the mildest numbers and how often.
type tally struct {
	r reason.Reason
	n int
}

func count(m map[reason.Code]*tally, r reason.Reason) {
	t := m[r.Code]
	if t == nil {
		m[r.Code] = &tally{r: r, n: 1}
		return
	}
	t.n++
	if r.Total > t.r.Total {
		t.r = r // the largest card says most
	}
}

// unfit reports why no node could ever take the pod: one finding for each
// code, the one that rules out most nodes first.
func (k *checker) unfit(t *Template, r *request.Request, refused map[reason.Code]*tally, nodes int) {
	var list []*tally
	for _, x := range refused {
		list = append(list, x)
	}
	sort.Slice(list, func(i, j int) bool {
		if list[i].n != list[j].n {
			return list[i].n > list[j].n
		}
		return list[i].r.Code < list[j].r.Code
	})
	for _, x := range list {
		f := k.add(k.asked(t, x.r.Code), x.r)
		if f.Verdict == reason.Wait {
			f.Verdict = reason.Blocked // nobody holds anything here
		}
		f.Hint = k.advise(r, x.r)
		if len(list) > 1 {
			fix := f.Fix()
			if fix != "" {
				fix = "; " + fix
			}
			f.Hint = fmt.Sprintf("this rules out %d of %d nodes%s", x.n, nodes, fix)
		}
	}
}

// asked is the path of the line that a refusal is about.
func (k *checker) asked(t *Template, code reason.Code) string {
	c := k.Config
	names := []string{c.GPU(), config.NvidiaGPU, c.GPUCore(), c.GPUSlice(), c.GPUMemory()}
	switch code {
	case "memory-above-largest-gpu", "slice-memory-too-large":
		names = []string{c.GPUMemory()}
	case "mig-model-not-supported", "mig-not-enabled":
		names = []string{c.GPUSlice()}
	case "replica-above-gpus-per-node":
		return t.label(request.ReplicaLabel)
	}
	for i := range t.Containers {
		for _, name := range names {
			if a := find(t.Containers[i].lines(), name); a != nil {
				return a.Path
			}
		}
	}
	return t.spec("containers")
}

// advise adds what the numbers allow to be said.
func (k *checker) advise(r *request.Request, why reason.Reason) string {
	switch why.Code {
	case "memory-above-largest-gpu":
		unit := k.Config.Unit
		for _, a := range r.Asks {
			have := a.MemMiB / unit.MiB()
			largest := largestMiB(k.Fleet)
			switch {
			case a.MemMiB <= largest:
			case r.Replica > 1 && a.MemMiB%int64(r.Replica) == 0 && a.MemMiB/int64(r.Replica) <= largest:
				return fmt.Sprintf("gpu-memory is per card: did you mean \"%d\"?", have/int64(r.Replica))
			case unit == config.GiB && have%config.MiBStep == 0 && have <= largest:
				return fmt.Sprintf("%d GiB is more than any card has: is the cluster in MiB mode? In GiB write \"%d\"", have, max(have/1024, 1))
			}
		}
	case "mig-model-not-supported":
		for _, m := range why.Detail {
			for _, capable := range []string{"A800", "H20", "H100", "H200", "A30"} {
				if strings.Contains(m, capable) {
					return "the card itself may be capable, but this product supports " +
						strings.Join(k.Config.MIGModels, " and ") + " only: ask a share or a whole card there"
				}
			}
		}
	}
	return ""
}

func largestMiB(f *Fleet) int64 {
	var most int64
	for _, n := range f.Nodes {
		if n.Node.Inventory == nil {
			continue
		}
		for _, c := range n.Node.Inventory.Cards {
			most = max(most, c.MemMiB)
		}
	}
	return most
}

// vendors says what is particular to the makes of cards that the pod may get.
func (k *checker) vendors(t *Template, r *request.Request, nodes []FleetNode) {
	s := shapeOf(nodes)
	var whole, mig int64
	for _, a := range r.Asks {
		switch {
		case a.Mode == request.Whole && !a.NVIDIAOnly:
			whole = max(whole, int64(a.Count))
		case a.Mode == request.MIG:
			mig++
		}
	}
	if mig > 0 && s.only(device.PPU) {
		k.add(k.asked(t, "mig-model-not-supported"), reason.Reason{Code: "ppu-prefer-tdm"})
	}
	if whole == 0 {
		return
	}
	at := k.asked(t, "")
	if len(s.vendors) > 1 {
		k.add(at, reason.Reason{Code: "vendor-unpinned", Device: k.Config.GPU(), Detail: s.vendors})
	}
	if whole > 1 && !s.family().UsesTopology(whole) {
		k.add(at, reason.Reason{Code: "topology-not-applied", Want: whole, Detail: s.models})
	}
	if s.family() == place.PPUM890P && !r.RDMA {
		k.add(at, reason.Reason{Code: "affinity-off", Detail: s.models})
	}
}

// shape is which vendors and models a set of nodes has, sorted.
type shape struct{ vendors, models []string }

func shapeOf(nodes []FleetNode) shape {
	vendors, models := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		if n.Node.Inventory == nil {
			continue
		}
		for _, c := range n.Node.Inventory.Cards {
			if c.Vendor.IsGPU() {
				vendors[string(c.Vendor)], models[c.Model] = true, true
			}
		}
	}
	return shape{sorted(vendors), sorted(models)}
}

func (s shape) only(v device.Vendor) bool { return len(s.vendors) == 1 && s.vendors[0] == string(v) }

// family is the one of all models, place.Other if they are of several.
func (s shape) family() place.Family {
	f := place.Other
	for i, m := range s.models {
		g := place.FamilyOf(m)
		if i > 0 && g != f {
			return place.Other
		}
		f = g
	}
	return f
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for s := range set {
		out = append(out, s)
	}
	sort.Strings(out)
	return out
}
