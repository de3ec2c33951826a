package netplace

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// hn reads "name tier: members", where members in capitals are HyperNodes and
// those with a tilde are patterns.
func hn(t testing.TB, lines ...string) []HyperNode {
	t.Helper()
	var out []HyperNode
	for _, l := range lines {
		head, members, _ := strings.Cut(l, ":")
		var h HyperNode
		if _, err := fmt.Sscanf(head, "%s %d", &h.Name, &h.Tier); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		for _, m := range strings.Fields(members) {
			switch {
			case m[0] == '~':
				match, _, err := Pattern(m[1:])
				if err != nil {
					t.Fatal(err)
				}
				h.Match = append(h.Match, match)
			case strings.ToUpper(m) == m:
				h.Below = append(h.Below, m)
			default:
				h.Nodes = append(h.Nodes, m)
			}
		}
		out = append(out, h)
	}
	return out
}

func TestAt(t *testing.T) {
	for name, c := range map[string]struct {
		hypernodes []string
		want       map[string]Place
		problems   []string
	}{
		"none": {nil, map[string]Place{"a": {}}, nil},
		"one tier is near and no wall": {[]string{"S0 1: a b", "S1 1: c"},
			map[string]Place{"a": {"S0", "", ""}, "c": {"S1", "", ""}, "x": {}}, nil},
		"two tiers": {[]string{"S0 1: a", "S1 1: b", "P 2: S0 S1"},
			map[string]Place{"a": {"S0", "", "P"}, "b": {"S1", "", "P"}}, nil},
		"three tiers, whatever their numbers": {[]string{"S0 10: a", "L 20: S0", "P 99: L"},
			map[string]Place{"a": {"S0", "L", "P"}}, nil},
		"four tiers: the lower middle": {[]string{"A 1: a", "B 2: A", "C 3: B", "D 4: C"},
			map[string]Place{"a": {"A", "B", "D"}}, nil},
		"five tiers: the middle": {[]string{"A 0: a", "B 1: A", "C 2: B", "D 3: C", "E 4: D"},
			map[string]Place{"a": {"A", "C", "E"}}, nil},
		"a node directly in a leaf has no HyperNode": {[]string{"S0 1: a", "L 2: S0 b", "P 3: L"},
			map[string]Place{"a": {"S0", "L", "P"}, "b": {"", "L", "P"}}, nil},
		"trees of different height are mapped each on its own": {[]string{"S0 1: a", "L 2: S0", "P 3: L", "S1 1: b", "Q 2: S1"},
			map[string]Place{"a": {"S0", "L", "P"}, "b": {"S1", "", "Q"}}, nil},
		"a branch may skip a tier": {[]string{"S0 1: a", "L 2: S0", "S1 1: b", "P 3: L S1"},
			map[string]Place{"a": {"S0", "L", "P"}, "b": {"S1", "", "P"}}, nil},
		"patterns match any part; the nearest HyperNode counts": {[]string{"S0 1: ~^gpu-0", "S1 1: ~^gpu-", "P 2: S0 S1 ~-"},
			map[string]Place{"gpu-01": {"S0", "", "P"}, "gpu-11": {"S1", "", "P"}, "cpu-1": {"", "", "P"}, "cpu": {}}, nil},
		"a name and a pattern agree on the order": {[]string{"S0 1: ~^a$ b", "S1 1: a ~^b$"},
			map[string]Place{"a": {"S0", "", ""}, "b": {"S0", "", ""}}, nil},
		"a node that its parents name too is no contradiction": {[]string{"S0 1: a", "P 2: S0 a"},
			map[string]Place{"a": {"S0", "", "P"}}, nil},
		"a node in two places": {[]string{"S1 1: a", "S0 1: a", "P 2: S0", "Q 2: S1"},
			map[string]Place{"a": {"S0", "", "P"}},
			[]string{"node a is a member of HyperNode S0 and of S1, which is not around it: the first holds"}},
		"two parents": {[]string{"S 1: a", "Q 3: S", "P 2: S", "R 2: S"},
			map[string]Place{"a": {"S", "", "P"}},
			[]string{"HyperNode S is a member of P and of Q: the first holds", "HyperNode S is a member of P and of R: the first holds"}},
		"a ring": {[]string{"A 1: a C", "B 2: A", "C 3: B"},
			map[string]Place{"a": {"A", "B", "C"}},
			[]string{"HyperNode A of tier 1 has the member HyperNode C of tier 3, which is not lower: left out"}},
		"itself": {[]string{"A 1: a A"}, map[string]Place{"a": {"A", "", ""}},
			[]string{"HyperNode A of tier 1 has the member HyperNode A of tier 1, which is not lower: left out"}},
		"a member that is not there": {[]string{"P 2: A"}, map[string]Place{"a": {}},
			[]string{"HyperNode P has the member HyperNode A, which does not exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := Resolve(hn(t, c.hypernodes...))
			for node, want := range c.want {
				if d := cmp.Diff(want, tree.At(node, nil)); d != "" {
					t.Errorf("%s (-want +got):\n%s", node, d)
				}
			}
			if d := cmp.Diff(c.problems, tree.Problems()); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
			if tree.Len() != len(c.hypernodes) {
				t.Errorf("%d HyperNodes", tree.Len())
			}
		})
	}
}

func TestNoTree(t *testing.T) {
	var tree *Tree
	if tree.At("a", nil) != (Place{}) || tree.Len() != 0 || tree.Problems() != nil {
		t.Error("a tree that is not there knows something")
	}
}

func TestOr(t *testing.T) {
	got := Place{HyperNode: "h", NetworkPod: "p"}.Or(Place{HyperNode: "x", Leaf: "l", NetworkPod: "x"})
	if d := cmp.Diff(Place{"h", "l", "p"}, got); d != "" {
		t.Error(d)
	}
}

// Whatever anybody writes: the order of the objects changes nothing, every
// level lies within the next, and what is said lies on a chain of members
// whose tiers rise.
func TestAnyHyperNodes(t *testing.T) {
	nodes := []string{"a", "b", "c", "d", "e"}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(rt, "n")
		name := rapid.SampledFrom([]string{"A", "B", "C", "D", "E", "F", "G", "H"}[:max(n, 1)])
		var all []HyperNode
		for i := range n {
			h := HyperNode{Name: string(rune('A' + i)), Tier: rapid.Int64Range(0, 4).Draw(rt, "tier")}
			h.Below = rapid.SliceOfN(name, 0, 3).Draw(rt, "below")
			h.Nodes = rapid.SliceOfN(rapid.SampledFrom(nodes), 0, 3).Draw(rt, "nodes")
			if rapid.Bool().Draw(rt, "match") {
				want := rapid.SampledFrom(nodes).Draw(rt, "matched")
				h.Match = []Match{func(name string, _ map[string]string) bool { return name == want }}
			}
			all = append(all, h)
		}
		tree := Resolve(all)
		shuffled := append([]HyperNode(nil), all...)
		seed := rapid.Uint64().Draw(rt, "seed")
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		again := Resolve(shuffled)
		if d := cmp.Diff(tree.Problems(), again.Problems()); d != "" {
			rt.Fatalf("the order changes the problems:\n%s", d)
		}
		leaves, pods := map[string]string{}, map[string]string{}
		for _, node := range nodes {
			p := tree.At(node, nil)
			if q := again.At(node, nil); p != q {
				rt.Fatalf("%s: the order changes %v to %v", node, p, q)
			}
			wantMember(rt, all, node, p)
			within(rt, leaves, p.HyperNode, p.Leaf+"/"+p.NetworkPod)
			within(rt, pods, p.Leaf, p.NetworkPod)
		}
	})
}

func within(rt *rapid.T, seen map[string]string, inner, outer string) {
	if first, ok := seen[inner]; ok && inner != "" && first != outer {
		rt.Fatalf("%s is in %s and in %s", inner, first, outer)
	}
	seen[inner] = outer
}

// wantMember: a node that any HyperNode takes has a place, and the nearest
// HyperNode that takes it is on the lowest tier of all that do.
func wantMember(rt *rapid.T, all []HyperNode, node string, p Place) {
	lowest, taken := int64(0), false
	tiers := map[string]int64{}
	for _, h := range all {
		tiers[h.Name] = h.Tier
		in := len(h.Match) > 0 && h.Match[0](node, nil)
		for _, n := range h.Nodes {
			in = in || n == node
		}
		if in && (!taken || h.Tier < lowest) {
			lowest, taken = h.Tier, true
		}
	}
	if !taken && p != (Place{}) {
		rt.Fatalf("%s is in no HyperNode and stands at %v", node, p)
	}
	last := lowest - 1
	for _, name := range []string{p.HyperNode, p.Leaf, p.NetworkPod} {
		if name == "" {
			continue
		}
		if tiers[name] <= last {
			rt.Fatalf("%s: tiers of %v do not rise from %d", node, p, lowest)
		}
		last = tiers[name]
	}
}

// A pattern from an object costs little, however it is written.
func TestPatternRefusesWhatIsCostly(t *testing.T) {
	for _, text := range []string{
		"(", "a{2000}", `(?<x`, "((a{99}){99}){99}", "((a{99}){99}){2}", strings.Repeat("(a|b)*", 1000), strings.Repeat("x", maxPattern+1),
		strings.Repeat("(", 2000) + strings.Repeat(")", 2000),
	} {
		if _, _, err := Pattern(text); err == nil {
			t.Errorf("%.40q is taken", text)
		} else if len(err.Error()) > 300 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: the error is not one short clause: %v", text, err)
		}
	}
	for text, name := range map[string]string{"^gpu-[0-9]+$": "gpu-12", "gpu": "my-gpu-1", `^(n1|n2|n3)\.rack-\d{1,3}$`: "n2.rack-17", "": "any"} {
		m, cost, err := Pattern(text)
		if err != nil || cost < 1 || cost > 200 || !m(name, nil) || (text != "" && m("other", nil)) {
			t.Errorf("%q: %v, cost %d", text, err, cost)
		}
	}
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"^a+$", "((a{99}){99}){9}", "(?i)[[:alpha:]]\\pL", "(a*)*b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, cost, err := Pattern(text)
		if (m == nil) != (err != nil) || cost > maxSteps {
			t.Fatalf("match %v, cost %d, error %v", m != nil, cost, err)
		}
		if m != nil {
			m(strings.Repeat("a", 253), nil)
		}
	})
}

// 5,000 nodes under 625 HyperNodes of the nearest tier; one round asks for a
// node's place. Patterns are the dear way.
func BenchmarkAt(b *testing.B) {
	for _, way := range []string{"names", "patterns"} {
		var all []HyperNode
		var racks []string
		for r := range 625 {
			h := HyperNode{Name: fmt.Sprintf("rack-%03d", r), Tier: 1}
			if way == "names" {
				for n := range 8 {
					h.Nodes = append(h.Nodes, fmt.Sprintf("node-%03d-%d", r, n))
				}
			} else {
				m, _, err := Pattern(fmt.Sprintf("^node-%03d-[0-9]$", r))
				if err != nil {
					b.Fatal(err)
				}
				h.Match = []Match{m}
			}
			all, racks = append(all, h), append(racks, h.Name)
		}
		tree := Resolve(append(all, HyperNode{Name: "spine", Tier: 2, Below: racks}))
		b.Run(way, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if tree.At("node-312-7", nil).HyperNode != "rack-312" {
					b.Fatal("not in its rack")
				}
			}
		})
	}
}
