package manifest

import (
	yaml3 "go.yaml.in/yaml/v3"

	"lj.aliyun.com/kit/pkg/core/request/rules"
)

// duplicate is a key that a mapping has twice. Only the last counts.
type duplicate struct {
	path        string
	key         string
	first, last position
}

// duplicates lists the keys that stand twice, in file order. Aliases are not
// followed: what they point to is looked at where it stands.
func duplicates(y *yaml3.Node, path string, out []duplicate) []duplicate {
	switch y.Kind {
	case yaml3.MappingNode:
		seen := map[string]position{}
		for i := 0; i+1 < len(y.Content); i += 2 {
			k := y.Content[i]
			at := rules.Join(path, k.Value)
			here := position{k.Line, k.Column}
			if first, ok := seen[k.Value]; ok && k.Tag != "!!merge" {
				out = append(out, duplicate{at, k.Value, first, here})
			}
			seen[k.Value] = here
			out = duplicates(y.Content[i+1], at, out)
		}
	case yaml3.SequenceNode:
		for i, c := range y.Content {
			out = duplicates(c, rules.Index(path, i), out)
		}
	}
	return out
}

// dropDuplicates finds the same in a tree read from JSON, and leaves the last
// of each.
func dropDuplicates(n *Node, path string, out []duplicate) []duplicate {
	for i, item := range n.Items {
		out = dropDuplicates(item, rules.Index(path, i), out)
	}
	last := map[string]int{}
	for i, f := range n.Fields {
		if j, ok := last[f.Key]; ok {
			g := n.Fields[j]
			out = append(out, duplicate{rules.Join(path, f.Key), f.Key, position{g.Line, g.Col}, position{f.Line, f.Col}})
		}
		last[f.Key] = i
	}
	kept := n.Fields[:0]
	for i, f := range n.Fields {
		if last[f.Key] == i {
			kept = append(kept, f)
			out = dropDuplicates(f.Value, rules.Join(path, f.Key), out)
		}
	}
	n.Fields = kept
	return out
}
