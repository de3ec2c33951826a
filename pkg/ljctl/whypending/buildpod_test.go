package whypending

import (
	"maps"
	"strconv"
	"strings"

	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/kube"
)

// words of the ask, and the resources that they mean.
var words = map[string]string{"gpu": "aliyun.com/gpu", "nvidia": "nvidia.com/gpu", "core": "aliyun.com/gpu-core", "mem": "aliyun.com/gpu-memory",
	"slice": "aliyun.com/gpu-slice", "rdma": "aliyun.com/rdma"}

func (b *building) pod(p podBrief) {
	if p.NS == "" {
		p.NS = "default"
	}
	limits, amount := map[string]any{}, map[string]int64{}
	fields := strings.Fields(p.Ask)
	for i := 0; i+1 < len(fields); i += 2 {
		limits[words[fields[i]]] = fields[i+1]
		amount[fields[i]], _ = strconv.ParseInt(fields[i+1], 10, 64)
	}
	requests := maps.Clone(limits)
	if p.CPU != "" {
		requests["cpu"] = p.CPU
	}
	labels := map[string]any{}
	for k, v := range p.Labels {
		labels[k] = v
	}
	uid := "uid-" + p.NS + "-" + p.Name
	meta := map[string]any{"name": p.Name, "namespace": p.NS, "uid": uid, "labels": labels, "creationTimestamp": ago(p.Age)}
	spec := map[string]any{"schedulerName": kube.SchedulerName, "runtimeClassName": "lj-runtime",
		"containers": []any{map[string]any{"name": "app", "image": "registry.example/app:1", "resources": map[string]any{"limits": limits, "requests": requests}}}}
	if p.Scheduler != "" {
		spec["schedulerName"] = p.Scheduler
	}
	phase := "Pending"
	if p.Node != "" {
		spec["nodeName"], phase = p.Node, "Running"
		if p.Cards != "" {
			meta["annotations"] = map[string]any{kube.AllocationAnnotation: b.allocation(p, uid, amount)}
		}
	}
	if p.Phase != "" {
		phase = p.Phase
	}
	if p.Ending != "" {
		meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = ago(p.Ending), 30
	}
	if kind, name, ok := strings.Cut(p.Owner, "/"); ok {
		meta["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": kind, "name": name, "uid": "uid-" + kind + "-" + name, "controller": true}}
	}
	b.add(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec,
		"status": map[string]any{"phase": phase, "startTime": ago(p.Age)}}, p.Patch)
}

// allocation is what the scheduler would have written for the cards.
func (b *building) allocation(p podBrief, uid string, amount map[string]int64) string {
	a := &device.Allocation{UID: uid, Node: p.Node, Containers: map[string][]device.Grant{}}
	for _, at := range strings.Fields(p.Cards) {
		index, start, isMIG := strings.Cut(at, "@")
		g := device.Grant{Card: "GPU-" + p.Node + "-" + index}
		switch {
		case isMIG:
			s, err := strconv.Atoi(start)
			if err != nil {
				b.t.Fatal(err)
			}
			inv := b.inv[p.Node]
			prof := mig.Candidates(inv.ProfilesOf(inv.Card(g.Card)), int(amount["slice"]), 0)[0]
			g.MIG, g.Start, g.Size = prof.Name, &s, prof.Size
		case amount["gpu"]+amount["nvidia"] > 0:
			g.Whole = true
		default:
			g.Share = true
			if v := amount["core"]; v > 0 {
				g.Core = &v
			}
			if v := amount["mem"] * 1024; v > 0 {
				g.MemMiB = &v
			}
		}
		a.Containers["app"] = append(a.Containers["app"], g)
	}
	text, err := device.EncodeAllocation(a)
	if err != nil {
		b.t.Fatalf("pod %s: %v", p.Name, err)
	}
	return text
}
