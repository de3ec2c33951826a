package whypending

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

// caseNow is the time at which every case is asked.
var caseNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A caseFile entry is short: nodes and pods in a few words, everything else
// as API objects. The builder turns it into a snapshot file of real objects.
type pendingCase struct {
	Case      string
	Nodes     []nodeBrief
	Pods      []podBrief
	Objects   []map[string]any
	Missing   []kube.Missing
	Scheduler string // "" healthy, "none": the case brings its own
	Manifest  string // for -f
	Ask       []string
	Want      want
}

type want struct {
	Verdict string
	Code    string
	Codes   []string            // must be among the reasons
	Not     []string            // must not be
	Nodes   map[string][]string // each node's codes, in any order
	Exit    int
	Fit     string
	Says    []string // in the messages, suggestions or notes
	Silent  []string // nowhere in the document
}

// nodeBrief is a node. Cards is "8 A100 80GiB"; models are in models.
type nodeBrief struct {
	Name        string
	Cards       string
	MIG         string            // "all", or indices "0 2"
	Sick        map[string]string // index: code
	Hold        map[string]string // index: "mem 18", "core 90 mem 4", "whole", "3g@0"
	NUMA        string            // "0 0 1 1"
	NICs        int
	Lost        string // index of a card that the agent does not see
	NoAgent     bool   // no inventory, no resources
	NoLabel     bool
	Labels      map[string]string
	Annotations map[string]string
	Allocatable map[string]string // overrides; "-" deletes
	Capacity    map[string]string
	Cordoned    bool
	NotReady    string // "30m": for how long
	Taints      []string
	Patch       map[string]any
}

// podBrief is a pod. Ask is "gpu 1", "core 50 mem 16", "slice 2 mem 8".
type podBrief struct {
	Name      string
	Copies    int // NAME-0, NAME-1, …
	NS        string
	Ask       string
	CPU       string
	Node      string
	Cards     string // of the node: "0 1", "0@4" for MIG
	Phase     string
	Age       string
	Ending    string // deletion time ago; "-45s": still to come
	Owner     string // kind/name
	Scheduler string
	Labels    map[string]string
	Patch     map[string]any
}

// models are the cards that cases use.
var models = map[string]struct {
	name   string
	vendor device.Vendor
	mib    int64
	mig    bool
}{
	"A100-80": {"NVIDIA A100-SXM4-80GB", device.NVIDIA, 81920, true},
	"A100-40": {"NVIDIA A100-SXM4-40GB", device.NVIDIA, 40960, true},
	"H800":    {"NVIDIA H800", device.NVIDIA, 81559, true},
	"H20":     {"NVIDIA H20", device.NVIDIA, 97871, true},
	"A10":     {"NVIDIA A10", device.NVIDIA, 24576, false},
	"810E":    {"PPU-ZW810E", device.PPU, 98304, false},
	"MI300X":  {"AMD MI300X", device.AMD, 196608, false},
}

// building is a snapshot in the making.
type building struct {
	t     testing.TB
	inv   map[string]*device.Inventory
	items []map[string]any
	pods  []podBrief
}

func ago(d string) string {
	v, err := time.ParseDuration(d)
	if err != nil {
		v = 10 * time.Minute
	}
	return caseNow.Add(-v).Format(time.RFC3339)
}

// snapshotOf writes the case's picture as ljctl snapshot would.
func snapshotOf(t testing.TB, c pendingCase) string {
	t.Helper()
	b := &building{t: t, inv: map[string]*device.Inventory{}}
	for _, n := range c.Nodes {
		b.node(n)
	}
	for _, p := range append(b.pods, c.Pods...) {
		if p.Copies == 0 {
			b.pod(p)
		}
		for i := range p.Copies {
			one := p
			one.Name = fmt.Sprintf("%s-%d", p.Name, i)
			b.pod(one)
		}
	}
	if c.Scheduler == "" {
		b.items = append(b.items, map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{"namespace": kube.Namespace, "name": kube.SchedulerLease},
			"spec": map[string]any{"holderIdentity": "a", "leaseDurationSeconds": 15, "acquireTime": caseNow.Add(-24 * time.Hour).Format("2006-01-02T15:04:05.000000Z"),
				"renewTime": caseNow.Add(-2 * time.Second).Format("2006-01-02T15:04:05.000000Z")}})
	}
	b.items = append(b.items, map[string]any{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
		"metadata": map[string]any{"name": "lj-runtime"}, "handler": "lj-runtime"})
	for _, o := range c.Objects {
		if o["kind"] == "RuntimeClass" {
			b.items = slices.DeleteFunc(b.items, func(i map[string]any) bool { return i["kind"] == "RuntimeClass" })
		}
		b.items = append(b.items, times(o))
	}
	doc := map[string]any{"apiVersion": kube.SnapshotAPIVersion, "kind": kube.SnapshotKind, "taken": caseNow.Format(time.RFC3339), "items": b.items}
	if c.Missing != nil {
		doc["missing"] = c.Missing
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// times turns the texts "ago 3h" into times, everywhere.
func times(v map[string]any) map[string]any {
	for k, x := range v {
		v[k] = timesIn(x)
	}
	return v
}

func timesIn(x any) any {
	switch y := x.(type) {
	case string:
		if d, ok := strings.CutPrefix(y, "ago "); ok {
			return ago(d)
		}
		if d, ok := strings.CutPrefix(y, "micro "); ok {
			at, err := time.Parse(time.RFC3339, ago(d))
			if err != nil {
				return y
			}
			return at.Format("2006-01-02T15:04:05.000000Z")
		}
	case map[string]any:
		return times(y)
	case []any:
		for i := range y {
			y[i] = timesIn(y[i])
		}
	}
	return x
}

func (b *building) add(o, patch map[string]any) {
	merge(o, times(patch))
	b.items = append(b.items, o)
}

// merge puts a patch over an object, as kubectl patch --type=merge does, but
// for lists with an equal number of mappings, which are merged one by one.
func merge(o, patch map[string]any) {
	for k, v := range patch {
		switch p := v.(type) {
		case nil:
			delete(o, k)
			continue
		case map[string]any:
			if old, ok := o[k].(map[string]any); ok {
				merge(old, p)
				continue
			}
		case []any:
			if old, ok := o[k].([]any); ok && len(old) == len(p) {
				for i := range p {
					a, okA := old[i].(map[string]any)
					b, okB := p[i].(map[string]any)
					if okA && okB {
						merge(a, b)
					} else {
						old[i] = p[i]
					}
				}
				continue
			}
		}
		o[k] = v
	}
}

func (b *building) node(n nodeBrief) {
	inv := b.inventory(n)
	labels, annotations := map[string]any{"kubernetes.io/hostname": n.Name}, map[string]any{}
	if n.Cards != "" && !n.NoLabel {
		labels[kube.EnableLabel] = "true"
	}
	for k, v := range n.Labels {
		labels[k] = v
	}
	for k, v := range n.Annotations {
		annotations[k] = v
	}
	amounts := map[string]any{"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}
	if n.Cards != "" && !n.NoAgent {
		text, err := device.EncodeInventory(inv)
		if err != nil {
			b.t.Fatal(err)
		}
		annotations[kube.InventoryAnnotation] = text
		for res, v := range inv.Capacity(config.Default()) {
			amounts[res] = strconv.FormatInt(v, 10)
		}
	}
	capacity := maps.Clone(amounts)
	override(amounts, n.Allocatable)
	override(capacity, n.Allocatable)
	override(capacity, n.Capacity)
	ready := map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": ago("24h")}
	spec := map[string]any{}
	var taints []any
	for _, t := range n.Taints {
		kv, effect, _ := strings.Cut(t, ":")
		k, v, _ := strings.Cut(kv, "=")
		taints = append(taints, map[string]any{"key": k, "value": v, "effect": effect})
	}
	if n.NotReady != "" {
		ready = map[string]any{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": ago(n.NotReady)}
		taints = append(taints, map[string]any{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"})
	}
	if n.Cordoned {
		spec["unschedulable"] = true
	}
	if taints != nil {
		spec["taints"] = taints
	}
	b.add(map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": n.Name, "labels": labels, "annotations": annotations},
		"spec": spec, "status": map[string]any{"capacity": capacity, "allocatable": amounts, "conditions": []any{ready}}}, n.Patch)
	for _, i := range slices.Sorted(maps.Keys(n.Hold)) {
		ask, at := n.Hold[i], i
		switch {
		case ask == "whole":
			ask = "gpu 1"
		case strings.Contains(ask, "g@"):
			slice, start, _ := strings.Cut(ask, "g@")
			ask, at = "slice "+slice+" mem 1", i+"@"+start
		}
		b.pods = append(b.pods, podBrief{Name: n.Name + "-c" + i, NS: "load", Ask: ask, Node: n.Name, Cards: at})
	}
}

func override(dst map[string]any, by map[string]string) {
	for k, v := range by {
		if v == "-" {
			delete(dst, k)
		} else {
			dst[k] = v
		}
	}
}

// inventory makes the cards of a node.
func (b *building) inventory(n nodeBrief) *device.Inventory {
	if n.Cards == "" {
		return nil
	}
	count, model, _ := strings.Cut(n.Cards, " ")
	m, ok := models[model]
	num, err := strconv.Atoi(count)
	if !ok || err != nil {
		b.t.Fatalf("node %s: cards %q", n.Name, n.Cards)
	}
	inv := &device.Inventory{V: 1, Unit: config.GiB, Cards: []device.Card{}}
	on := strings.Fields(n.MIG)
	numa := strings.Fields(n.NUMA)
	for i := range num {
		if strconv.Itoa(i) == n.Lost {
			continue
		}
		c := device.Card{UUID: fmt.Sprintf("GPU-%s-%d", n.Name, i), Index: i, Model: m.name, Vendor: m.vendor, MemMiB: m.mib}
		if m.mig {
			cut := n.MIG == "all" || slices.Contains(on, strconv.Itoa(i))
			c.MIG = &device.MIGMode{Cur: cut, Pend: cut}
		}
		if code := n.Sick[strconv.Itoa(i)]; code != "" {
			c.Health = []device.HealthEvent{{Code: code}}
		}
		if i < len(numa) {
			v, err := strconv.Atoi(numa[i])
			if err != nil {
				b.t.Fatal(err)
			}
			c.NUMA = &v
		}
		inv.Cards = append(inv.Cards, c)
	}
	for i := range n.NICs {
		inv.NICs = append(inv.NICs, device.NIC{Name: fmt.Sprintf("mlx5_%d", i)})
	}
	b.inv[n.Name] = inv
	return inv
}
