package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
)

// Parse reads a fleet file. It is strict: unknown, repeated and misplaced keys
// are problems. On wrong input the error is Problems, all of them at once.
func Parse(data []byte) (*Fleet, error) {
	if len(data) > MaxBytes {
		return nil, Problems{{Issue: fmt.Sprintf("%d bytes, more than the %d that a fleet file may have", len(data), MaxBytes)}}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, Problems{{Issue: "the file is empty: it needs a list of nodes"}}
		}
		return nil, Problems{{Issue: strings.TrimPrefix(err.Error(), "yaml: ")}}
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, Problems{{Issue: "more than one YAML document: a fleet is one"}}
	}
	d := &decoder{}
	f := &Fleet{Config: config.Default()}
	names := map[string]int{}
	d.mapping(doc.Content[0], "", map[string]field{
		"config": func(n *yaml.Node, path string) { d.settings(f, n, path) },
		"nodes": func(n *yaml.Node, path string) {
			d.list(n, path, func(n *yaml.Node, path string) { d.entry(f, names, n, path) })
		},
	})
	if len(d.problems) == 0 && len(f.Nodes) == 0 {
		d.fail(doc.Content[0], "nodes", "there are none")
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// settings passes a mapping on to the parser of the cluster's settings.
func (d *decoder) settings(f *Fleet, n *yaml.Node, path string) {
	text, err := yaml.Marshal(n)
	if err != nil || hasAlias(n) {
		d.fail(n, path, "must be a plain mapping without YAML aliases")
		return
	}
	c, err := kube.ParseConfig(string(text))
	if err != nil {
		d.fail(n, path, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	f.ConfigText, f.Config = string(text), c
}

func hasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasAlias)
}

// entry reads one item of nodes and adds the nodes that it stands for.
func (d *decoder) entry(f *Fleet, names map[string]int, n *yaml.Node, path string) {
	before := len(d.problems)
	node := Node{Enabled: true, Agent: true, Ready: true, Pods: 110,
		CPU: resource.MustParse("128"), Memory: resource.MustParse("1Ti")}
	count := int64(-1)
	var cards, nics *yaml.Node
	keep := func(dst **yaml.Node) field { return func(n *yaml.Node, _ string) { *dst = n } }
	d.mapping(n, path, map[string]field{
		"name":          d.text(&node.Name),
		"count":         d.integer(&count, 1, MaxNodes),
		"networkPod":    d.label(&node.NetworkPod),
		"leaf":          d.label(&node.Leaf),
		"hypernode":     d.label(&node.HyperNode),
		"cpu":           d.quantity(&node.CPU),
		"memory":        d.quantity(&node.Memory),
		"pods":          d.integer(&node.Pods, 0, 10_000),
		"enabled":       d.boolean(&node.Enabled),
		"agent":         d.boolean(&node.Agent),
		"ready":         d.boolean(&node.Ready),
		"unschedulable": d.boolean(&node.Unschedulable),
		"labels":        d.labels(&node.Labels),
		"taints": func(n *yaml.Node, path string) {
			d.list(n, path, func(n *yaml.Node, path string) { d.taint(&node.Taints, n, path) })
		},
		"cards": keep(&cards),
		"nics":  keep(&nics),
	})
	if cards != nil {
		node.Cards = d.cards(cards, path+".cards")
	}
	if nics != nil {
		node.NICs = d.nics(nics, path+".nics")
	}
	if len(d.problems) > before {
		return
	}
	d.expand(f, names, n, path, node, count)
}

func (d *decoder) expand(f *Fleet, names map[string]int, n *yaml.Node, path string, node Node, count int64) {
	base := node.Name
	for i := range max(count, 1) {
		node.Name = base
		if count > 0 {
			node.Name = fmt.Sprintf("%s-%d", base, i)
		}
		// A node's name is also the value of its hostname label.
		msgs := append(validation.IsDNS1123Subdomain(node.Name), validation.IsValidLabelValue(node.Name)...)
		if len(msgs) > 0 {
			d.fail(n, path+".name", "%q is no node name: %s", node.Name, msgs[0])
			return
		}
		if line, taken := names[node.Name]; taken {
			d.fail(n, path+".name", "a node %q is already there from line %d", node.Name, line)
			return
		}
		if len(f.Nodes) >= MaxNodes {
			d.fail(n, path, "more than %d nodes", MaxNodes)
			return
		}
		names[node.Name] = n.Line
		one := node
		one.Labels, one.Taints = maps.Clone(node.Labels), slices.Clone(node.Taints)
		f.Nodes = append(f.Nodes, one)
	}
}

func (d *decoder) quantity(dst *resource.Quantity) field {
	return func(n *yaml.Node, path string) {
		q, err := resource.ParseQuantity(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || q.Sign() <= 0 {
			d.fail(n, path, "must be a positive quantity such as 64 or 512Gi, is %s", kindOf(n))
			return
		}
		*dst = q
	}
}

// label reads the value of a topology label.
func (d *decoder) label(dst *string) field {
	return func(n *yaml.Node, path string) {
		d.text(dst)(n, path)
		if msgs := validation.IsValidLabelValue(*dst); len(msgs) > 0 {
			d.fail(n, path, "%q is no label value: %s", *dst, msgs[0])
		}
	}
}

func (d *decoder) labels(dst *map[string]string) field {
	return func(n *yaml.Node, path string) {
		d.strings(dst)(n, path)
		for _, k := range slices.Sorted(maps.Keys(*dst)) {
			if msgs := append(validation.IsQualifiedName(k), validation.IsValidLabelValue((*dst)[k])...); len(msgs) > 0 {
				d.fail(n, path+"."+k, "no valid label: %s", msgs[0])
			}
		}
	}
}

var taintEffects = []string{string(v1.TaintEffectNoSchedule), string(v1.TaintEffectPreferNoSchedule), string(v1.TaintEffectNoExecute)}

func (d *decoder) taint(dst *[]v1.Taint, n *yaml.Node, path string) {
	before := len(d.problems)
	var key, value, effect string
	d.mapping(n, path, map[string]field{"key": d.text(&key), "value": d.text(&value), "effect": d.text(&effect)})
	if msgs := validation.IsQualifiedName(key); len(msgs) > 0 && len(d.problems) == before {
		d.fail(n, path+".key", "%q is no taint key: %s", key, msgs[0])
	}
	if !slices.Contains(taintEffects, effect) && len(d.problems) == before {
		d.fail(n, path+".effect", "unknown effect %q%s", effect, didYouMean(effect, taintEffects))
	}
	*dst = append(*dst, v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)})
}

// healthCode is the form of the codes that an agent publishes: "xid-79".
var healthCode = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
