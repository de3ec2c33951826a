package fleet

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

func defaultFleet(t *testing.T) *Fleet {
	t.Helper()
	f, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func node(t *testing.T, f *Fleet, name string) *Node {
	t.Helper()
	for i := range f.Nodes {
		if f.Nodes[i].Name == name {
			return &f.Nodes[i]
		}
	}
	t.Fatalf("no node %s", name)
	return nil
}

// The numbers are worked out by hand from the cards, not by Capacity.
func TestDefaultFleetOffers(t *testing.T) {
	f := defaultFleet(t)
	for name, want := range map[string]map[string]int64{
		"a100-40":     {"nvidia.com/gpu": 8, "aliyun.com/gpu": 8, "aliyun.com/gpu-core": 800, "aliyun.com/gpu-memory": 320},
		"a100-40-mig": {"aliyun.com/gpu-slice": 56, "aliyun.com/gpu-memory": 320},
		"a100-80":     {"nvidia.com/gpu": 6, "aliyun.com/gpu": 6, "aliyun.com/gpu-core": 600, "aliyun.com/gpu-slice": 14, "aliyun.com/gpu-memory": 640},
		// 81,559 MiB are 79 whole GiB.
		"h800":        {"nvidia.com/gpu": 8, "aliyun.com/gpu": 8, "aliyun.com/gpu-core": 800, "aliyun.com/gpu-memory": 632, "aliyun.com/rdma": 1000},
		"ppu-m890p-0": {"aliyun.com/gpu": 8, "aliyun.com/gpu-core": 800, "aliyun.com/gpu-memory": 1152, "aliyun.com/rdma": 1000},
		"t4":          {"nvidia.com/gpu": 4, "aliyun.com/gpu": 4, "aliyun.com/gpu-core": 400, "aliyun.com/gpu-memory": 60},
		"amd":         {"aliyun.com/gpu": 8, "amd.com/gpu": 8},
		"netint":      {"netint.ca/ASIC": 4},
	} {
		t.Run(name, func(t *testing.T) {
			obj, err := node(t, f, name).Object(f.Config)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int64{}
			for k, q := range obj.Status.Allocatable {
				switch k {
				case v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods, v1.ResourceEphemeralStorage:
				default:
					got[string(k)] = q.Value()
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("allocatable (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(obj.Status.Capacity, obj.Status.Allocatable); diff != "" {
				t.Errorf("capacity and allocatable differ:\n%s", diff)
			}
		})
	}
}

func TestDefaultFleetHasEveryKindOfNode(t *testing.T) {
	f := defaultFleet(t)
	domains := map[string]map[string]bool{}
	add := func(kind, value string) {
		if domains[kind] == nil {
			domains[kind] = map[string]bool{}
		}
		domains[kind][value] = true
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		add("network-pod", n.NetworkPod)
		add("leaf", n.Leaf)
		add("vendor", string(n.Cards.Model.Vendor))
		add("enabled", fmt.Sprint(n.Enabled))
		add("unschedulable", fmt.Sprint(n.Unschedulable))
	}
	for kind, want := range map[string]int{"network-pod": 2, "leaf": 6, "vendor": len(device.Vendors()), "enabled": 2, "unschedulable": 2} {
		if len(domains[kind]) != want {
			t.Errorf("%s: %v, want %d kinds", kind, domains[kind], want)
		}
	}
}

// The demonstration's groups of 7, 12 and 20 workers with a card each rest on
// these numbers.
func TestDefaultFleetHasRoomForTheGroupsOfTheDemonstration(t *testing.T) {
	f := defaultFleet(t)
	leaves, pods, nodes := map[string]int64{}, map[string]int64{}, int64(0)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if !n.Enabled || n.Unschedulable || n.Cards.Model.Vendor != device.NVIDIA {
			continue
		}
		whole := int64(0)
		for _, c := range n.Inventory(f.Config.Unit).Cards {
			if c.Healthy() && !c.InMIGMode() {
				whole++
			}
		}
		leaves[n.NetworkPod+"/"+n.Leaf] += whole
		pods[n.NetworkPod] += whole
		nodes = max(nodes, whole)
	}
	if d := cmp.Diff(map[string]int64{"np-1": 30, "np-2": 11}, pods); d != "" {
		t.Errorf("whole NVIDIA cards of the network-pods (-want +got):\n%s", d)
	}
	largest := int64(0)
	for _, n := range leaves {
		largest = max(largest, n)
	}
	if nodes < 7 || largest >= 12 || pods["np-1"] < 20 || pods["np-1"]-12 >= 20 || pods["np-1"]+pods["np-2"]-12 < 20 {
		t.Errorf("the groups do not behave as their manifests say: %v", leaves)
	}
}

func TestObjectHasLabelsAndAReadableInventory(t *testing.T) {
	f := defaultFleet(t)
	obj, err := node(t, f, "ppu-m890p-1").Object(f.Config)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"kubernetes.io/hostname": "ppu-m890p-1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
		"lj.aliyun.com/hypernode": "hn-8", "alibabacloud.com/asw-id": "leaf-5", "alibabacloud.com/point-of-delivery": "np-2",
		"accelerator/vendor": "ppu", "lj_runtimekit_enable": "true", "aliyun.accelerator/ppu_name": "PPU-M890P",
	}
	if diff := cmp.Diff(want, obj.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	inv, err := device.DecodeInventory(obj.Annotations[kube.InventoryAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(node(t, f, "ppu-m890p-1").Inventory(f.Config.Unit), inv); diff != "" {
		t.Errorf("the annotation differs from the inventory (-want +got):\n%s", diff)
	}
}

func TestNodeWithoutLabelOrAgent(t *testing.T) {
	f := defaultFleet(t)
	n := *node(t, f, "t4")
	n.Enabled = false
	obj, err := n.Object(f.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := obj.Labels[kube.EnableLabel]; ok {
		t.Error("a node that is not enabled has the label")
	}
	n.Agent = false
	if obj, err = n.Object(f.Config); err != nil {
		t.Fatal(err)
	}
	if _, ok := obj.Annotations[kube.InventoryAnnotation]; ok {
		t.Error("a node without an agent has an inventory")
	}
	if _, ok := obj.Status.Allocatable["aliyun.com/gpu"]; ok {
		t.Error("a node without an agent offers our resources")
	}
}

// Every address is used once on a node, and the same card of the same node
// always has the same UUID.
func TestIdentitiesAreUniqueAndStable(t *testing.T) {
	f, again := defaultFleet(t), defaultFleet(t)
	uuids := map[string]string{}
	for i := range f.Nodes {
		inv := f.Nodes[i].Inventory(config.GiB)
		if diff := cmp.Diff(inv, again.Nodes[i].Inventory(config.GiB)); diff != "" {
			t.Fatalf("%s: two readings differ:\n%s", f.Nodes[i].Name, diff)
		}
		pci := map[string]bool{}
		seen := func(what, addr string) {
			if pci[addr] {
				t.Errorf("%s: address %s of %s is used twice", f.Nodes[i].Name, addr, what)
			}
			pci[addr] = true
		}
		for _, c := range inv.Cards {
			if other, ok := uuids[c.UUID]; ok {
				t.Errorf("UUID %s is on %s and %s", c.UUID, other, f.Nodes[i].Name)
			}
			uuids[c.UUID] = f.Nodes[i].Name
			seen("a card", c.PCI)
		}
		for _, n := range inv.NICs {
			seen("a NIC", n.PCI)
		}
	}
}

// On an M890P host all four tiers between a card and its nearest NIC occur as
// NICs go down: same switch, same NUMA node, same socket, other socket.
func TestM890PHasFourTiers(t *testing.T) {
	f := defaultFleet(t)
	tier := func(down ...int) string {
		n := *node(t, f, "ppu-m890p-0")
		n.NICs.Down = down
		inv := n.Inventory(config.GiB)
		card, best := inv.Cards[0], "cross"
		for i := range inv.NICs {
			nic := &inv.NICs[i]
			switch {
			case !nic.Usable():
			case nic.Switch == card.Switch:
				return "switch"
			case *nic.NUMA == *card.NUMA:
				best = "numa"
			case *nic.Socket == *card.Socket && best == "cross":
				best = "socket"
			}
		}
		return best
	}
	got := []string{tier(), tier(0), tier(0, 1)}
	if diff := cmp.Diff([]string{"switch", "socket", "cross"}, got); diff != "" {
		t.Errorf("tiers of card 0 (-want +got):\n%s", diff)
	}
	inv := node(t, f, "ppu-m890p-0").Inventory(config.GiB)
	if a, b := inv.Cards[1], inv.NICs[0]; a.Switch == b.Switch || *a.NUMA != *b.NUMA {
		t.Errorf("card 1 (%s, NUMA %d) and NIC 0 (%s, NUMA %d) must share a NUMA node only", a.Switch, *a.NUMA, b.Switch, *b.NUMA)
	}
}

// The groups of the vendor's example: pairs with two links are 01 06 17 23 45
// 67, and {0,1,6,7} and {2,3,4,5} are the groups of four.
func TestICNGroupsStraddleTheSockets(t *testing.T) {
	f := defaultFleet(t)
	inv := node(t, f, "ppu-810e").Inventory(config.GiB)
	double := map[[2]int]bool{}
	sum := func(cards ...int) (n int) {
		in := map[int]bool{}
		for _, c := range cards {
			in[c] = true
		}
		for _, l := range inv.Links {
			if in[l.A] && in[l.B] {
				n += l.N
			}
		}
		return n
	}
	for _, l := range inv.Links {
		if l.N == 2 {
			double[[2]int{l.A, l.B}] = true
		}
	}
	want := map[[2]int]bool{{0, 1}: true, {0, 6}: true, {1, 7}: true, {2, 3}: true, {4, 5}: true, {6, 7}: true}
	if diff := cmp.Diff(want, double); diff != "" {
		t.Errorf("pairs with two links (-want +got):\n%s", diff)
	}
	if a, b, naive := sum(0, 1, 6, 7), sum(2, 3, 4, 5), sum(0, 1, 2, 3); a != 8 || b != 8 || naive != 6 {
		t.Errorf("links within {0,1,6,7}, {2,3,4,5}, {0,1,2,3}: %d %d %d, want 8 8 6", a, b, naive)
	}
}
