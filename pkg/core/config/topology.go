package config

import "slices"

// Topology names the node labels of the three network levels above a node,
// nearest first.
type Topology struct {
	// Preset names the built-in set that the keys start from. Keys that are
	// set on their own win over it.
	Preset     string
	HyperNode  string
	Leaf       string
	NetworkPod string
}

// DefaultPreset holds where the cluster says nothing.
const DefaultPreset = "ack"

// presets are the label keys that clouds and discovery tools write, mapped
// onto the three levels.
var presets = []Topology{
	// ACK on Lingjun: the access switch and the point of delivery, as its
	// component lingjun-networktopology-collector writes them. It has no label
	// for HyperNodes, so that one is the suite's own.
	{DefaultPreset, "lj.aliyun.com/hypernode", "alibabacloud.com/asw-id", "alibabacloud.com/point-of-delivery"},
	// The sample keys of Volcano's HyperNode discovery from labels; Huawei CCE
	// labels super-nodes with the first.
	{"volcano", "volcano.sh/hypernode", "volcano.sh/tor", "volcano.sh/hypercluster"},
	// NVIDIA topograph 1.x: the accelerators' own domain, then the switches
	// from the node upwards, of which there may be more.
	{"topograph", "accelerator.topograph.run/domain", "fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1"},
	// NVIDIA topograph before 1.0.
	{"topograph-0", "network.topology.nvidia.com/accelerator", "network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine"},
	// GKE: host, sub-block and block of the compact placement.
	{"gke", "cloud.google.com/gce-topology-host", "cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block"},
	// EKS: layer 1 is the top; instances with four layers have layer 4 next
	// to them.
	{"eks", "topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/network-node-layer-2", "topology.k8s.aws/network-node-layer-1"},
}

// TopologyPresets lists the names of the built-in sets of label keys.
func TopologyPresets() []string {
	out := make([]string, len(presets))
	for i := range presets {
		out[i] = presets[i].Preset
	}
	return out
}

// TopologyPreset returns the label keys of a built-in set.
func TopologyPreset(name string) (Topology, bool) {
	i := slices.IndexFunc(presets, func(t Topology) bool { return t.Preset == name })
	if i < 0 {
		return Topology{}, false
	}
	return presets[i], true
}
