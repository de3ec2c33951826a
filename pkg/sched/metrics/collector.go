package metrics

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/core/place"
)

// Sources say where the picture of the cluster comes from.
type Sources struct {
	Version string
	Fleet   *Fleet
	// Leading tells whether this process decides. One that waits for its turn
	// shows no picture, so that sums over the copies are right.
	Leading func() bool
	// Gangs counts the groups by their state, states without groups too; nil
	// shows none.
	Gangs func() map[string]int
}

const mib = 1 << 20

var (
	descBuild = desc("lj_build_info", "Always 1; the label is the version of the program.", "version")
	descCards = desc("lj_cards", "GPUs by model and what is done with them: free (can be taken whole), held (taken whole), shared (divided in time), "+
		"cut (divided by MIG), unhealthy, closed (on nodes that take no pods). Each card is in one state.", "model", "state")
	descCore = desc("lj_free_compute_percent", "Compute that shares can still get, in percent of one card: on whole free cards, split (on shared cards), "+
		"or stuck (on shared cards whose memory is used up).", "model", "part")
	descMemory = desc("lj_free_memory_bytes", "Card memory that shares can still get, in bytes: on whole free cards, split (on shared cards), "+
		"or stuck (on shared cards whose compute is used up).", "model", "part")
	descSlices = desc("lj_free_mig_slices", "Memory slices, eight to a card, not in use on cards in MIG mode: usable, or stuck (no instance can cover them until a neighbour ends).",
		"model", "part")
	descInstances = desc("lj_mig_creatable_instances", "MIG instances of a profile that could be created now on cards in MIG mode if no others were.", "model", "profile")
	descFragments = desc("lj_fragmentation_ratio", "Share of the free compute, memory or MIG slices that is left over beside other holders (compute, memory) or "+
		"that no instance can cover (mig); 0 where nothing is free.", "model", "of")
	descNodes = desc("lj_nodes", "Nodes with GPUs: open (take pods), down (cordoned or not ready), unreadable (no readable inventory), disabled (not labelled).", "state")
	descAlien = desc("lj_foreign_pods", "Pods that hold GPUs of enabled nodes without a readable allocation, because another scheduler placed them.")
	descGangs = desc("lj_gangs", "Groups of pods that start together, by state.", "state")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// NewRegistry has all metrics of the suite's own, for one running scheduler.
func NewRegistry(s Sources) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(BindingRetries, FenceRefusals, refusals, &collector{s})
	return r
}

// collector shows a Fleet at the moment of each scrape.
type collector struct{ Sources }

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descBuild, descCards, descCore, descMemory, descSlices, descInstances, descFragments, descNodes, descAlien, descGangs} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	show := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	show(descBuild, 1, c.Version)
	if !c.Leading() {
		return
	}
	if c.Gangs != nil {
		for state, n := range c.Gangs() {
			show(descGangs, float64(n), state)
		}
	}
	n, err := c.Fleet.Count()
	if err != nil {
		klog.Background().Error(err, "Count the cards for metrics")
		return
	}
	for _, s := range NodeStates() {
		show(descNodes, float64(n.Nodes[s]), string(s))
	}
	show(descAlien, float64(len(n.Foreign)))
	for _, model := range slices.Sorted(maps.Keys(n.Models)) {
		showModel(show, model, n.Models[model])
	}
}

func showModel(show func(*prometheus.Desc, float64, ...string), model string, c place.Census) {
	for _, x := range []struct {
		desc  *prometheus.Desc
		label string
		value int64
	}{
		{descCards, "free", c.Free}, {descCards, "held", c.Held}, {descCards, "shared", c.Shared},
		{descCards, "cut", c.Cut}, {descCards, "unhealthy", c.Unhealthy}, {descCards, "closed", c.Closed},
		{descCore, "whole", c.FreeCore - c.SplitCore}, {descCore, "split", c.SplitCore - c.StuckCore}, {descCore, "stuck", c.StuckCore},
		{descMemory, "whole", (c.FreeMiB - c.SplitMiB) * mib}, {descMemory, "split", (c.SplitMiB - c.StuckMiB) * mib}, {descMemory, "stuck", c.StuckMiB * mib},
		{descSlices, "usable", c.FreeSlices - c.StuckSlices}, {descSlices, "stuck", c.StuckSlices},
	} {
		show(x.desc, float64(x.value), model, x.label)
	}
	for profile, n := range c.Instances {
		show(descInstances, float64(n), model, profile)
	}
	show(descFragments, ratio(c.SplitCore, c.FreeCore), model, "compute")
	show(descFragments, ratio(c.SplitMiB, c.FreeMiB), model, "memory")
	show(descFragments, ratio(c.StuckSlices, c.FreeSlices), model, "mig")
}

func ratio(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}
