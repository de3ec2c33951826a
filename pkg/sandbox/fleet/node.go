package fleet

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

// Resources that other vendors' own device plugins register.
const (
	amdGPU     = "amd.com/gpu"
	netintASIC = "netint.ca/ASIC"
)

// Object is the Node that the simulated kubelet registers, with its status as
// it is once kubelet, agent and device plugins have reported.
func (n *Node) Object(c config.Config) (*v1.Node, error) {
	inv := n.Inventory(c.Unit)
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.labels(c), Annotations: map[string]string{}},
		Spec:       v1.NodeSpec{Unschedulable: n.Unschedulable, Taints: n.Taints},
		Status: v1.NodeStatus{
			Capacity: v1.ResourceList{
				v1.ResourceCPU:              n.CPU,
				v1.ResourceMemory:           n.Memory,
				v1.ResourcePods:             *resource.NewQuantity(n.Pods, resource.DecimalSI),
				v1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
			},
			Addresses: []v1.NodeAddress{{Type: v1.NodeHostName, Address: n.Name}},
			NodeInfo: v1.NodeSystemInfo{
				OperatingSystem: "linux", Architecture: "amd64", KernelVersion: "simulated",
				OSImage: "ljsandbox simulated node", ContainerRuntimeVersion: "ljsandbox://1", KubeletVersion: "v1.37.2",
				BootID: uuid(n.Name, "boot"), MachineID: uuid(n.Name, "machine"), SystemUUID: uuid(n.Name, "system"),
			},
		},
	}
	for name, amount := range n.extended(c, inv) {
		node.Status.Capacity[v1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
	node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	if inv != nil {
		text, err := device.EncodeInventory(inv)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Name, err)
		}
		node.Annotations[kube.InventoryAnnotation] = text
	}
	return node, nil
}

func (n *Node) labels(c config.Config) map[string]string {
	out := map[string]string{
		v1.LabelHostname:   n.Name,
		v1.LabelOSStable:   "linux",
		v1.LabelArchStable: "amd64",
	}
	for key, value := range map[string]string{
		c.Topology.HyperNode: n.HyperNode, c.Topology.Leaf: n.Leaf, c.Topology.NetworkPod: n.NetworkPod,
	} {
		if value != "" {
			out[key] = value
		}
	}
	if n.Cards != nil {
		out[kube.VendorLabel] = string(n.Cards.Model.Vendor)
	}
	if n.Enabled {
		out[kube.EnableLabel] = "true"
	}
	maps.Copy(out, n.Labels)
	return out
}

// extended is what the agent and other vendors' plugins add to the node.
func (n *Node) extended(c config.Config, inv *device.Inventory) map[string]int64 {
	out := map[string]int64{}
	if inv != nil {
		maps.Copy(out, inv.Capacity(c))
	}
	if n.Cards == nil {
		return out
	}
	switch n.Cards.Model.Vendor {
	case device.AMD:
		out[amdGPU] = int64(n.Cards.Count)
	case device.NETINT:
		out[netintASIC] = int64(n.Cards.Count)
	}
	return out
}
