package place

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/coretest"
)

// matrices has tables that nvidia-smi and ppu-smi printed on real machines. It
// is not part of the repository.
const matrices = "../../../../shared/data/topology/matrices"

var (
	cardName = regexp.MustCompile(`^[GP]PU(\d+)$`)
	nicName  = regexp.MustCompile(`^(NIC|mlx)\w+$`)
	linkCell = regexp.MustCompile(`^(NV|ICN)(\d+)$`)
)

// readMatrix makes a node of a table that is whole. What the table hides stays
// unknown: it prints a pair's links in place of its PCI path.
func readMatrix(t *testing.T, text, model string) *cluster.Node {
	t.Helper()
	var names []string
	cells := map[[2]string]string{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || !cardName.MatchString(f[0]) && !nicName.MatchString(f[0]):
		case names == nil:
			for _, name := range f {
				if !cardName.MatchString(name) && !nicName.MatchString(name) {
					break // the affinity columns
				}
				names = append(names, name)
			}
		case len(f) > len(names):
			for i, name := range names {
				cells[[2]string{f[0], name}] = f[i+1]
			}
		}
	}
	together := func(levels ...string) map[string]int {
		group := map[string]int{}
		for i, name := range names {
			group[name] = i
		}
		for range names {
			for pair, cell := range cells {
				if slices.Contains(levels, cell) {
					m := min(group[pair[0]], group[pair[1]])
					group[pair[0]], group[pair[1]] = m, m
				}
			}
		}
		return group
	}
	switches, nodes := together("PIX"), together("PIX", "PXB", "PHB", "NODE")
	b := coretest.Node("n", cfg)
	for _, name := range names {
		sw, numa := strconv.Itoa(switches[name]), nodes[name]
		if m := cardName.FindStringSubmatch(name); m != nil {
			i, _ := strconv.Atoi(m[1])
			b.Cards(1, model).At(i, sw, numa, numa)
			for j := range i {
				if l := linkCell.FindStringSubmatch(cells[[2]string{name, strings.Replace(name, m[1], strconv.Itoa(j), 1)}]); l != nil {
					width, _ := strconv.Atoi(l[2])
					b.Link("link", j, i, width)
				}
			}
		} else {
			b.NICAt(sw, numa, numa)
		}
	}
	return b.Obj()
}

func TestRealMachines(t *testing.T) {
	tests := map[string]struct {
		model string
		two   []int // the best pair, and with RDMA
		near  []int
		four  []int
	}{
		"ppu-8gpu-8nic-icn-DOCEXAMPLE-nicrows-mislabelled": {coretest.PPU810E, nil, nil, []int{0, 1, 6, 7}},
		"v100-8gpu-hcm-1nic-dlperf":                        {coretest.V100, []int{2, 3}, []int{2, 3}, []int{0, 1, 2, 3}},
		"v100-8gpu-hcm-9nic-cori":                          {coretest.V100, []int{2, 3}, []int{2, 3}, []int{0, 1, 2, 3}},
		"hopper-8gpu-4dualport-nic":                        {coretest.H800, []int{0, 1}, []int{0, 2}, []int{0, 1, 2, 3}},
		"b300-8gpu-8nic-bond-lingjun":                      {coretest.H800, []int{0, 1}, []int{0, 1}, []int{0, 1, 2, 3}},
		"a100pcie-8gpu-nvbridge-pairs-TABS":                {coretest.A100x80, []int{0, 2}, nil, nil},
		"pcie-8gpu-pix-node-sys":                           {coretest.A10, []int{0, 1}, nil, []int{0, 1, 2, 3}},
		"p100-8gpu-pix-phb-TABS":                           {coretest.V100, nil, nil, nil},
		"l4-8gpu-phb-sys":                                  {coretest.A10, nil, nil, []int{0, 1, 2, 3}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(matrices, name+".txt"))
			if err != nil {
				t.Skipf("the matrices are not here: %v", err)
			}
			n := readMatrix(t, string(text), tt.model)
			for _, q := range []struct {
				name  string
				count int64
				rdma  bool
				want  []int
			}{{"two", 2, false, tt.two}, {"two near NICs", 2, true, tt.near}, {"three", 3, false, nil}, {"four", 4, false, tt.four}, {"four near NICs", 4, true, nil}, {"seven", 7, false, nil}} {
				r := whole(q.count)
				if q.rdma {
					if len(n.Inventory.NICs) == 0 {
						continue
					}
					r = rdma(q.count)
				}
				o, why := NewView(n, cfg).Fit(r)
				if why != nil {
					t.Fatal(why)
				}
				got := taken(n, o)
				if q.want != nil && !slices.Equal(got, q.want) {
					t.Errorf("%s: took %v, want %v", q.name, got, q.want)
				}
				if best := (&judgement{n, r, cfg, n.Inventory.Cards}).best(); !slices.Equal(got, best) {
					t.Errorf("%s: took %v, the best of all sets is %v", q.name, got, best)
				}
			}
		})
	}
}
