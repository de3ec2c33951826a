package explain

import (
	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/place"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// CardCauses are what the enabling label, the agent's reports and the cards
// of the node say to the request, each by itself: a node without the label is
// still asked whether its cards would do. It returns nothing exactly if
// place.Check finds that the request fits. A request for no card gets nothing.
func CardCauses(n *cluster.Node, r *request.Request, cfg config.Config) []Cause {
	if r.Empty() {
		return nil
	}
	var out []Cause
	if n.Gate != nil {
		check := Enabled
		if n.Gate.Code == "no-gpu-on-node" {
			check = Cards
		}
		out = append(out, Cause{Check: check, Reason: *n.Gate})
		if check == Cards {
			return append(out, Cause{Check: Enabled, Reason: *n.Gate, Effect: true}, Cause{Check: Agent, Reason: *n.Gate, Effect: true},
				Cause{Check: Free, Reason: *n.Gate, Effect: true})
		}
	}
	if n.Inventory == nil {
		return append(out, withoutInventory(n, r)...)
	}
	out = append(out, reports(n, r, cfg)...)
	var beside []Cause
	for _, why := range place.NewView(mended(n, r, cfg), cfg).Check(r) {
		c := Cause{Check: Cards, Reason: why}
		if why.Code == "gpu-in-mig-mode" {
			// It comes beside busy cards and says why the idle one does not
			// help; what the node waits for are the busy ones.
			beside = append(beside, Cause{Check: Free, Reason: why, Verdict: reason.Wait})
			continue
		}
		if c.Passes() {
			c.Check = Free
		}
		out = append(out, c)
	}
	out = append(out, beside...)
	if len(out) == 0 {
		// The cards do, and no report is missing that they should make: the
		// scheduler's own rule has the last word.
		for _, why := range place.NewView(n, cfg).Check(r) {
			out = append(out, Cause{Check: Agent, Reason: why})
		}
	}
	return out
}

// withoutInventory is a node whose cards nobody can see.
func withoutInventory(n *cluster.Node, r *request.Request) []Cause {
	var out []Cause
	unread := reason.Reason{Code: "inventory-missing"}
	if n.Unread != nil {
		unread = *n.Unread
	}
	if unread.Code == "inventory-missing" {
		for _, res := range r.Resources {
			if _, ok := n.Allocatable[res]; !ok {
				out = append(out, Cause{Check: Agent, Reason: reason.Reason{Code: "resource-not-reported", Device: res}})
				break
			}
		}
	}
	out = append(out, Cause{Check: Agent, Reason: unread, Effect: n.Gate != nil && n.Unread == nil})
	if n.Gate != nil && n.Unread == nil {
		// Nobody runs an agent where the label is missing.
		for i := range out {
			out[i].Effect = true
		}
	}
	return append(out, Cause{Check: Cards, Reason: unread, Effect: true}, Cause{Check: Free, Reason: unread, Effect: true})
}

// reports are the resources that the agent should have registered with the
// kubelet, and has not.
func reports(n *cluster.Node, r *request.Request, cfg config.Config) []Cause {
	if r.Unit != n.Inventory.Unit && wantsMemory(r) {
		return []Cause{{Check: Agent, Reason: reason.Reason{Code: "memory-unit-mismatch", Detail: []string{string(n.Inventory.Unit)}}}}
	}
	var out []Cause
	offered := n.Inventory.Capacity(cfg)
	for _, res := range r.Resources {
		v, there := n.Allocatable[res]
		switch {
		case v > 0:
		case res == cfg.RDMA() && offered[res] == 0:
			out = append(out, Cause{Check: Cards, Reason: reason.Reason{Code: "no-rdma-nic", Device: res}})
		case offered[res] == 0:
			// The cards themselves do not offer it, and say so better.
		case there:
			out = append(out, Cause{Check: Agent, Reason: reason.Reason{Code: "agent-link-lost", Device: res, Want: offered[res]}})
		default:
			out = append(out, Cause{Check: Agent, Reason: reason.Reason{Code: "resource-not-reported", Device: res}})
		}
	}
	return out
}

// mended is the node with label and reports as they should be, so that what
// is left are the cards.
func mended(n *cluster.Node, r *request.Request, cfg config.Config) *cluster.Node {
	m := *n
	m.Gate, m.Unread = nil, nil
	if inv := *n.Inventory; inv.Unit != r.Unit {
		inv.Unit = r.Unit
		m.Inventory = &inv
	}
	m.Allocatable = map[string]int64{}
	for _, res := range r.Resources {
		m.Allocatable[res] = 1
	}
	return &m
}

func wantsMemory(r *request.Request) bool {
	for _, a := range r.Asks {
		if a.MemMiB > 0 {
			return true
		}
	}
	return false
}

// Explained is what each card of the node says, for people. It is nil where
// the node's cards are not known.
func Explained(n *cluster.Node, r *request.Request, cfg config.Config) []place.CardAnswer {
	if n.Inventory == nil || r.Empty() {
		return nil
	}
	return place.NewView(mended(n, r, cfg), cfg).Explain(r).Cards
}
