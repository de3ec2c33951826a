package kube

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/netplace"
)

// hyperNodes reads specs by name.
func hyperNodes(t testing.TB, specs map[string]string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for name, text := range specs {
		var spec any
		if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": map[string]any{"name": name}, "spec": spec}})
	}
	return out
}

func TestNodeInPrefersHyperNodesToLabels(t *testing.T) {
	network := NetworkOf(hyperNodes(t, map[string]string{
		"s0":  `{tier: 1, members: [{type: Node, selector: {exactMatch: {name: a}}}]}`,
		"s1":  `{tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: "^b[0-9]+$"}}}]}`,
		"s2":  `{tier: 1, members: [{type: Node, selector: {labelMatch: {matchLabels: {rack: r2}, matchExpressions: [{key: spare, operator: DoesNotExist}]}}}]}`,
		"top": `{tier: 2, members: [{type: HyperNode, selector: {exactMatch: {name: s0}}}, {type: HyperNode, selector: {exactMatch: {name: s1}}}]}`,
	}))
	if p := network.Problems(); len(p) > 0 {
		t.Fatal(p)
	}
	labels := map[string]string{"lj.aliyun.com/hypernode": "h", "alibabacloud.com/asw-id": "l", "alibabacloud.com/point-of-delivery": "p"}
	rack := map[string]string{"rack": "r2", "alibabacloud.com/point-of-delivery": "p"}
	for name, c := range map[string]struct {
		node    string
		labels  map[string]string
		network *netplace.Tree
		want    netplace.Place
	}{
		"no HyperNodes":              {"a", labels, nil, netplace.Place{HyperNode: "h", Leaf: "l", NetworkPod: "p"}},
		"a level that they lack":     {"a", labels, network, netplace.Place{HyperNode: "s0", Leaf: "l", NetworkPod: "top"}},
		"a node that they lack":      {"c", labels, network, netplace.Place{HyperNode: "h", Leaf: "l", NetworkPod: "p"}},
		"by pattern":                 {"b7", nil, network, netplace.Place{HyperNode: "s1", NetworkPod: "top"}},
		"by labels, a tree of one":   {"c", rack, network, netplace.Place{HyperNode: "s2", NetworkPod: "p"}},
		"a condition that holds not": {"c", map[string]string{"rack": "r2", "spare": ""}, network, netplace.Place{}},
	} {
		t.Run(name, func(t *testing.T) {
			n := NodeIn(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.node, Labels: c.labels}}, config.Default(), c.network)
			if d := cmp.Diff(c.want, netplace.Place{HyperNode: n.HyperNode, Leaf: n.Leaf, NetworkPod: n.NetworkPod}); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestHyperNodesThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want string // the problem; empty: none
		in   bool   // node a is in it all the same
	}{
		"the first API had texts for tiers": {`{tier: "1", members: [{type: Node, selector: {type: Exact, exactMatch: {name: a}}}]}`, "", true},
		"no spec":                           {`null`, "HyperNode h: spec.tier: must be a whole number, not null: left out", false},
		"a tier in words":                   {`{tier: low}`, `HyperNode h: spec.tier: must be a whole number, not "low": left out`, false},
		"half a tier":                       {`{tier: 1.5}`, "HyperNode h: spec.tier: must be a whole number, not 1.5: left out", false},
		"one bad member of two": {`{tier: 1, members: [7, {type: Node, selector: {exactMatch: {name: a}}}]}`,
			"HyperNode h: spec.members[0]: type must be Node or HyperNode, not null", true},
		"members that are no list": {`{tier: 1, members: all}`, "", false},
		"a HyperNode by pattern": {`{tier: 1, members: [{type: HyperNode, selector: {regexMatch: {pattern: .}}}]}`,
			"HyperNode h: spec.members[0]: a HyperNode is named by exactMatch only", false},
		"no selector": {`{tier: 1, members: [{type: Node}]}`, "HyperNode h: spec.members[0]: no exactMatch, regexMatch or labelMatch that can be read", false},
		"a name that is a number": {`{tier: 1, members: [{type: Node, selector: {exactMatch: {name: 1}}}]}`,
			"HyperNode h: spec.members[0]: no exactMatch, regexMatch or labelMatch that can be read", false},
		"a broken pattern": {`{tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: "a("}}}]}`,
			`HyperNode h: spec.members[0]: pattern "a(": missing closing )`, false},
		"a bomb": {`{tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: "((a{99}){99}){2}"}}}]}`,
			`HyperNode h: spec.members[0]: pattern "((a{99}){99}){2}": invalid repeat count`, false},
		"labels of a wrong type": {`{tier: 1, members: [{type: Node, selector: {labelMatch: {matchLabels: [a]}}}]}`,
			"HyperNode h: spec.members[0]: labelMatch is not a label selector", false},
		"an unknown operator": {`{tier: 1, members: [{type: Node, selector: {labelMatch: {matchExpressions: [{key: a, operator: Near}]}}}]}`,
			`HyperNode h: spec.members[0]: labelMatch: "Near" is not a valid label selector operator`, false},
		"no condition selects nothing": {`{tier: 1, members: [{type: Node, selector: {labelMatch: {}}}]}`,
			"HyperNode h: spec.members[0]: labelMatch has no condition and selects nothing", false},
	} {
		t.Run(name, func(t *testing.T) {
			tree := NetworkOf(hyperNodes(t, map[string]string{"h": c.spec}))
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			if d := cmp.Diff(want, tree.Problems()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if got := tree.At("a", nil).HyperNode == "h"; got != c.in {
				t.Errorf("node a is in it: %v", got)
			}
		})
	}
}

// What matching may cost is bounded over all objects, not only in each.
func TestPatternsOfAllHyperNodesAreBounded(t *testing.T) {
	member := `{type: Node, selector: {regexMatch: {pattern: "` + strings.Repeat("(x|y)", 700) + `"}}}`
	specs := map[string]string{}
	for _, name := range strings.Fields("a b c d e f") {
		specs[name] = `{tier: 1, members: [` + strings.Repeat(member+",", 20) + `]}`
	}
	tree := NetworkOf(hyperNodes(t, specs))
	if n := len(tree.Problems()); n == 0 || !strings.Contains(tree.Problems()[0], "too many or too large; name nodes with exactMatch") {
		t.Errorf("%d problems: %q", n, tree.Problems())
	}
}

func FuzzNetworkOf(f *testing.F) {
	f.Add(`{"tier": 1, "members": [{"type": "Node", "selector": {"labelMatch": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}}]}`)
	f.Add(`{"tier": "2", "members": [{"type": "HyperNode", "selector": {"exactMatch": {"name": "h"}}}, {"type": "Node", "selector": {"regexMatch": {"pattern": "."}}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var spec any
		if yaml.Unmarshal([]byte(text), &spec) != nil {
			return
		}
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "h"}, "spec": spec}}
		tree := NetworkOf([]*unstructured.Unstructured{o})
		tree.At("a", map[string]string{"a": "b"})
		for _, p := range tree.Problems() {
			if strings.Contains(p, "\n") || len(p) > 600 {
				t.Fatalf("not one short line: %q", p)
			}
		}
	})
}
