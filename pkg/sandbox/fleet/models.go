package fleet

import (
	"slices"
	"strings"

	"lj.aliyun.com/kit/pkg/core/device"
)

// Layout is where cards and NICs sit: equal numbers on every PCIe switch, in
// order, switches under NUMA nodes, NUMA nodes under sockets.
type Layout struct {
	Sockets         int
	NUMAPerSocket   int
	SwitchesPerNUMA int
}

func (l Layout) switches() int { return l.Sockets * l.NUMAPerSocket * l.SwitchesPerNUMA }

// Model is what is known about a card by a short name in fleet files.
type Model struct {
	Short   string // in fleet files
	Product string // as the driver says
	Vendor  device.Vendor
	MemMiB  int64
	Cards   int // per node, unless the file says otherwise
	Layout  Layout
	links   func(cards int) []device.Link
	prefix  string // of the UUID that the vendor's tool prints
}

var (
	twoSockets = Layout{Sockets: 2, NUMAPerSocket: 1, SwitchesPerNUMA: 2}
	flat       = Layout{Sockets: 2, NUMAPerSocket: 1, SwitchesPerNUMA: 1}
)

// models are the built-in ones. Memory is what the vendor's driver reports as
// total; it differs from the nominal size, which is why an H800 offers 79 GiB.
var models = []Model{
	{"A100-40", "NVIDIA A100-SXM4-40GB", device.NVIDIA, 40960, 8, twoSockets, allPairs("nvlink", 12), "GPU-"},
	{"A100-80", "NVIDIA A100-SXM4-80GB", device.NVIDIA, 81920, 8, twoSockets, allPairs("nvlink", 12), "GPU-"},
	{"H800", "NVIDIA H800", device.NVIDIA, 81559, 8, twoSockets, allPairs("nvlink", 8), "GPU-"},
	{"H100", "NVIDIA H100 80GB HBM3", device.NVIDIA, 81559, 8, twoSockets, allPairs("nvlink", 18), "GPU-"},
	{"H20", "NVIDIA H20", device.NVIDIA, 97871, 8, twoSockets, allPairs("nvlink", 18), "GPU-"},
	{"L20", "NVIDIA L20", device.NVIDIA, 46068, 8, twoSockets, nil, "GPU-"},
	{"T4", "Tesla T4", device.NVIDIA, 15360, 4, flat, nil, "GPU-"},
	{"V100", "Tesla V100-SXM2-32GB", device.NVIDIA, 32768, 8, twoSockets, cubeMesh, "GPU-"},
	{"PPU-ZW810E", "PPU-ZW810E", device.PPU, 98304, 8, twoSockets, icnGroups, "PPU-"},
	// Two switches on each of four NUMA nodes, so that all four tiers between
	// a card and a NIC are different.
	{"PPU-M890P", "PPU-M890P", device.PPU, 147456, 8, Layout{2, 2, 2}, nil, "PPU-"},
	{"MI300X", "AMD Instinct MI300X", device.AMD, 196592, 8, twoSockets, allPairs("xgmi", 1), "GPU-"},
	{"QUADRA-T1U", "NETINT Quadra T1U", device.NETINT, 8192, 4, flat, nil, "ASIC-"},
}

// ModelNames lists the short names, in the order of the table.
func ModelNames() []string {
	out := make([]string, len(models))
	for i := range models {
		out[i] = models[i].Short
	}
	return out
}

func modelByName(name string) (Model, bool) {
	i := slices.IndexFunc(models, func(m Model) bool { return strings.EqualFold(m.Short, name) })
	if i < 0 {
		return Model{}, false
	}
	return models[i], true
}

// uuidPrefix is how UUIDs of a vendor's cards begin.
func uuidPrefix(v device.Vendor) string {
	for i := range models {
		if models[i].Vendor == v {
			return models[i].prefix
		}
	}
	return "GPU-"
}

// allPairs is a switched fabric: every pair has the same number of links.
func allPairs(kind string, n int) func(int) []device.Link {
	return func(cards int) []device.Link {
		var out []device.Link
		for a := range cards {
			for b := a + 1; b < cards; b++ {
				out = append(out, device.Link{A: a, B: b, Kind: kind, N: n})
			}
		}
		return out
	}
}

// cubeMesh is the hybrid cube mesh of an eight-card V100 host, as its
// nvidia-smi prints it.
func cubeMesh(cards int) []device.Link {
	return within(cards, "nvlink", [][3]int{
		{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
		{2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2},
	})
}

// icnGroups are the interconnects of an eight-card ZW810E host in the vendor's
// documentation: two groups of four that do not follow the sockets.
func icnGroups(cards int) []device.Link {
	return within(cards, "icn", [][3]int{
		{0, 1, 2}, {0, 3, 1}, {0, 6, 2}, {1, 2, 1}, {1, 7, 2}, {2, 3, 2}, {2, 4, 1}, {2, 5, 1},
		{3, 4, 1}, {3, 5, 1}, {4, 5, 2}, {4, 7, 1}, {5, 6, 1}, {6, 7, 2},
	})
}

func within(cards int, kind string, pairs [][3]int) []device.Link {
	var out []device.Link
	for _, p := range pairs {
		if p[1] < cards {
			out = append(out, device.Link{A: p[0], B: p[1], Kind: kind, N: p[2]})
		}
	}
	return out
}
