package kube

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/netplace"
)

// HyperNodes is the resource of Volcano's network topology, used unstructured
// so that the suite works with and without it.
var HyperNodes = schema.GroupVersionResource{Group: "topology.volcano.sh", Version: "v1alpha1", Resource: "hypernodes"}

// HyperNodeKind is the kind of HyperNodes' objects.
var HyperNodeKind = schema.GroupVersionKind{Group: "topology.volcano.sh", Version: "v1alpha1", Kind: "HyperNode"}

// maxMatching bounds what HyperNodes cost each time that a node's place is
// asked: the sum over all patterns and label selectors, in steps of
// netplace.Pattern. Several thousand of the usual kind pass.
const maxMatching = 1 << 18

// NodeIn is NodeOf in a cluster whose network is described by HyperNodes, nil
// for none. Node labels fill what they leave open.
func NodeIn(n *v1.Node, c config.Config, network *netplace.Tree) *cluster.Node {
	out := NodeOf(n, c)
	at := network.At(n.Name, n.Labels).Or(netplace.Place{HyperNode: out.HyperNode, Leaf: out.Leaf, NetworkPod: out.NetworkPod})
	out.HyperNode, out.Leaf, out.NetworkPod = at.HyperNode, at.Leaf, at.NetworkPod
	return out
}

// NetworkOf reads HyperNode objects. What in them cannot be understood is
// among the tree's problems and counts as not there.
func NetworkOf(objects []*unstructured.Unstructured) *netplace.Tree {
	sorted := slices.Clone(objects)
	slices.SortFunc(sorted, func(a, b *unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	r := hyperNodeReader{budget: maxMatching}
	for _, o := range sorted {
		r.read(o)
	}
	return netplace.Resolve(r.all, r.problems...)
}

// hyperNodeReader reads one object after the other.
type hyperNodeReader struct {
	all      []netplace.HyperNode
	problems []string
	budget   int // of maxMatching, what is left
}

func (r *hyperNodeReader) read(o *unstructured.Unstructured) {
	spec, _ := o.Object["spec"].(map[string]any)
	tier, ok := tierOf(spec["tier"])
	if !ok {
		r.problems = append(r.problems, fmt.Sprintf("HyperNode %s: spec.tier: must be a whole number, not %s: left out", o.GetName(), show(spec["tier"])))
		return
	}
	h := netplace.HyperNode{Name: o.GetName(), Tier: tier}
	members, _ := spec["members"].([]any)
	for i, m := range members {
		member, _ := m.(map[string]any)
		if err := r.member(&h, member); err != nil {
			r.problems = append(r.problems, fmt.Sprintf("HyperNode %s: spec.members[%d]: %v", h.Name, i, err))
		}
	}
	r.all = append(r.all, h)
}

// tierOf also takes the text that the first version of the API had.
func tierOf(v any) (int64, bool) {
	switch t := v.(type) {
	case int64:
		return t, true
	case float64:
		return int64(t), t == float64(int64(t))
	case json.Number:
		n, err := t.Int64()
		return n, err == nil
	case string:
		n, err := strconv.ParseInt(t, 10, 64)
		return n, err == nil
	}
	return 0, false
}

func (r *hyperNodeReader) member(h *netplace.HyperNode, member map[string]any) error {
	selector, _ := member["selector"].(map[string]any)
	exact, _, _ := unstructured.NestedString(selector, "exactMatch", "name")
	pattern, hasPattern, _ := unstructured.NestedString(selector, "regexMatch", "pattern")
	match, hasLabels, _ := unstructured.NestedMap(selector, "labelMatch")
	kind, _ := member["type"].(string)
	switch {
	case kind != "Node" && kind != "HyperNode":
		return fmt.Errorf("type must be Node or HyperNode, not %s", show(member["type"]))
	case kind == "HyperNode" && exact != "":
		h.Below = append(h.Below, exact)
	case kind == "HyperNode":
		return errors.New("a HyperNode is named by exactMatch only")
	case exact != "":
		h.Nodes = append(h.Nodes, exact)
	case hasPattern && pattern != "":
		m, cost, err := netplace.Pattern(pattern)
		if err != nil {
			return err
		}
		return r.match(h, m, cost)
	case hasLabels:
		m, cost, err := labelMatch(match)
		if err != nil {
			return err
		}
		return r.match(h, m, cost)
	default:
		return errors.New("no exactMatch, regexMatch or labelMatch that can be read")
	}
	return nil
}

func (r *hyperNodeReader) match(h *netplace.HyperNode, m netplace.Match, cost int) error {
	if cost > r.budget {
		return errors.New("the patterns and label selectors of all HyperNodes are too many or too large; name nodes with exactMatch")
	}
	r.budget -= cost
	h.Match = append(h.Match, m)
	return nil
}

// labelMatch reads a label selector. One without conditions selects nothing,
// as Volcano has it.
func labelMatch(m map[string]any) (netplace.Match, int, error) {
	var ls metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, &ls); err != nil {
		return nil, 0, errors.New("labelMatch is not a label selector")
	}
	selector, err := metav1.LabelSelectorAsSelector(&ls)
	if err != nil {
		return nil, 0, fmt.Errorf("labelMatch: %.200s", firstLine(err))
	}
	if selector.Empty() {
		return nil, 0, errors.New("labelMatch has no condition and selects nothing")
	}
	return func(_ string, have map[string]string) bool { return selector.Matches(labels.Set(have)) },
		len(ls.MatchLabels) + len(ls.MatchExpressions), nil
}
