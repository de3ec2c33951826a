package coretest

import (
	"fmt"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
)

// Host is a kind of machine whose topology is known.
type Host struct {
	Name string
	// About says where the facts are from.
	About string
	Build func(node string, c config.Config) *NodeBuilder
}

// Hosts lists the named hosts.
func Hosts() []Host {
	return []Host{
		{"DGX-1 V100", "hybrid cube mesh as nvidia-smi prints it (NERSC Cori, DLPerf); four NICs, one on each switch", DGX1},
		{"DGX-2", "16 V100 on NVSwitch, two cards and a NIC on each of eight switches (nccl-tests issue 78)", DGX2},
		{"DGX A100", "NVSwitch, four switches of two cards and two NICs on NUMA nodes 3, 1, 7 and 5 (nccl issue 1505)", DGXA100},
		{"HGX H800", "NVSwitch, each card with a NIC on a switch of its own (the shape of b300-8gpu-8nic-bond-lingjun)", HGXH800},
		{"A10 x8", "no links and no switches, four cards on each of two sockets", A10x8},
		{"PPU 810E x8", "the matrix of the PPU-SMI manual: the best quads are 0167 and 2345", PPU810Ex8},
		{"PPU 810E x16", "synthetic: two of the above without links between them", PPU810Ex16},
		{"M890P 4 NICs", "two cards and a NIC on each of four switches; no public table exists", func(n string, c config.Config) *NodeBuilder { return M890P(n, c, 4) }},
		{"M890P 8 NICs", "the same with two NICs on each switch", func(n string, c config.Config) *NodeBuilder { return M890P(n, c, 8) }},
		{"M890P unknown", "the same with one NIC on each switch, and a card and a NIC of which nothing is known", M890PUnknown},
	}
}

// More models of cards.
const (
	V100     = "Tesla V100-SXM2-32GB"
	A10      = "NVIDIA A10"
	PPUM890P = "PPU-M890P"
)

// At puts a card below a switch, on a NUMA node and a socket. An empty switch
// and numbers below 0 are facts that nobody knows.
func (b *NodeBuilder) At(card int, sw string, numa, socket int) *NodeBuilder {
	c := &b.n.Inventory.Cards[card]
	c.Switch, c.NUMA, c.Socket = sw, known(numa), known(socket)
	c.PCI = fmt.Sprintf("0000:%02x:00.0", 0x10+card)
	return b
}

// NICAt adds a NIC with one port of 400 Gb/s in service, placed as by At.
func (b *NodeBuilder) NICAt(sw string, numa, socket int) *NodeBuilder {
	i := len(b.n.Inventory.NICs)
	b.n.Inventory.NICs = append(b.n.Inventory.NICs, device.NIC{
		Name: fmt.Sprintf("mlx5_%d", i), PCI: NICAddress(i), Switch: sw, NUMA: known(numa), Socket: known(socket),
		Ports: []device.Port{{Num: 1, State: "ACTIVE", Layer: "InfiniBand", Gbps: 400}},
	})
	return b
}

// NICAddress is the PCI address of the i-th NIC added by NICAt.
func NICAddress(i int) string { return fmt.Sprintf("0000:%02x:00.0", 0x80+i) }

// Down takes the port of a NIC out of service.
func (b *NodeBuilder) Down(nic int) *NodeBuilder {
	b.n.Inventory.NICs[nic].Ports[0].State = "DOWN"
	return b
}

// Link joins two cards.
func (b *NodeBuilder) Link(kind string, x, y, n int) *NodeBuilder {
	b.n.Inventory.Links = append(b.n.Inventory.Links, device.Link{A: x, B: y, Kind: kind, N: n})
	return b
}

func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

// switched joins every pair of cards by n links.
func (b *NodeBuilder) switched(n int) *NodeBuilder {
	for y := range b.n.Inventory.Cards {
		for x := range y {
			b.Link("nvlink", x, y, n)
		}
	}
	return b
}

// DGX1 has eight V100 in a hybrid cube mesh.
func DGX1(node string, c config.Config) *NodeBuilder {
	b := Node(node, c).Cards(8, V100)
	for i := range 8 {
		b.At(i, fmt.Sprintf("0000:%02x:00.0", i/2), i/4, i/4)
	}
	for i := range 4 {
		b.NICAt(fmt.Sprintf("0000:%02x:00.0", i), i/2, i/2)
	}
	return b.mesh("nvlink", 0, [][3]int{
		{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
		{2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2},
	})
}

func (b *NodeBuilder) mesh(kind string, first int, links [][3]int) *NodeBuilder {
	for _, l := range links {
		b.Link(kind, first+l[0], first+l[1], l[2])
	}
	return b
}

// DGX2 has sixteen V100 on NVSwitch.
func DGX2(node string, c config.Config) *NodeBuilder {
	b := Node(node, c).Cards(16, V100)
	for i := range 16 {
		b.At(i, fmt.Sprintf("0000:%02x:00.0", i/2), i/8, i/8)
	}
	for i := range 8 {
		b.NICAt(fmt.Sprintf("0000:%02x:00.0", i), i/4, i/4)
	}
	return b.switched(6)
}

// DGXA100 has eight A100 on NVSwitch, on four of the eight NUMA nodes.
func DGXA100(node string, c config.Config) *NodeBuilder {
	b := Node(node, c).Cards(8, A100x40)
	numa := []int{3, 1, 7, 5}
	for i := range 8 {
		b.At(i, fmt.Sprintf("0000:%02x:00.0", i/2), numa[i/2], i/4)
	}
	for i := range 8 {
		b.NICAt(fmt.Sprintf("0000:%02x:00.0", i/2), numa[i/2], i/4)
	}
	return b.switched(12)
}

// HGXH800 has eight H800 on NVSwitch, each with a NIC of its own.
func HGXH800(node string, c config.Config) *NodeBuilder {
	b := Node(node, c).Cards(8, H800)
	for i := range 8 {
		b.At(i, fmt.Sprintf("0000:%02x:00.0", i), i/4, i/4).NICAt(fmt.Sprintf("0000:%02x:00.0", i), i/4, i/4)
	}
	return b.switched(8)
}

// A10x8 has eight A10, each on a root port of its own.
func A10x8(node string, c config.Config) *NodeBuilder {
	b := Node(node, c).Cards(8, A10)
	for i := range 8 {
		b.At(i, "", i/4, i/4)
	}
	return b
}

// icn are the links of eight ZW810E in the manual's matrix.
var icn = [][3]int{
	{0, 1, 2}, {0, 3, 1}, {0, 6, 2}, {1, 2, 1}, {1, 7, 2}, {2, 3, 2}, {2, 4, 1}, {2, 5, 1},
	{3, 4, 1}, {3, 5, 1}, {4, 5, 2}, {4, 7, 1}, {5, 6, 1}, {6, 7, 2},
}

// PPU810Ex8 has eight PPU whose links do not follow the sockets.
func PPU810Ex8(node string, c config.Config) *NodeBuilder {
	b := Node(node, c).Cards(8, PPU810E)
	for i := range 8 {
		b.At(i, fmt.Sprintf("0000:%02x:00.0", i/2), i/4, i/4)
	}
	for i := range 4 {
		b.NICAt(fmt.Sprintf("0000:%02x:00.0", i), i/2, i/2)
	}
	return b.mesh("icn", 0, icn)
}

// PPU810Ex16 has two such groups of eight.
func PPU810Ex16(node string, c config.Config) *NodeBuilder {
	b := Node(node, c).Cards(16, PPU810E)
	for i := range 16 {
		b.At(i, fmt.Sprintf("0000:%02x:00.0", i/2), i%8/4, i%8/4)
	}
	for i := range 8 {
		b.NICAt(fmt.Sprintf("0000:%02x:00.0", i), i%4/2, i%4/2)
	}
	return b.mesh("icn", 0, icn).mesh("icn", 8, icn)
}

// M890P has eight PPU on four switches, one on each of four NUMA nodes.
func M890P(node string, c config.Config, nics int) *NodeBuilder {
	b := Node(node, c).Cards(8, PPUM890P)
	for i := range 8 {
		b.At(i, fmt.Sprintf("0000:%02x:00.0", i/2), i/2, i/4)
	}
	for i := range nics {
		sw := i * 4 / nics
		b.NICAt(fmt.Sprintf("0000:%02x:00.0", sw), sw, sw/2)
	}
	return b
}

// M890PUnknown is one on which the kernel knows no NUMA node for card 7 and
// its NIC, and does not see their switch.
func M890PUnknown(node string, c config.Config) *NodeBuilder {
	b := M890P(node, c, 3).At(7, "", -1, -1)
	for i := range 3 {
		n := &b.n.Inventory.NICs[i]
		n.Switch, n.NUMA, n.Socket = fmt.Sprintf("0000:%02x:00.0", i), known(i), known(i/2)
	}
	return b.NICAt("", -1, -1)
}
