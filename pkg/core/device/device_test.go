package device

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/mig"
)

func ptr[T any](v T) *T { return &v }

func sample() *Inventory {
	return &Inventory{V: 1, Unit: config.GiB, Agent: "v1", Boot: "b",
		Cards: []Card{
			{UUID: "GPU-0", Index: 0, Minor: ptr(0), Model: "NVIDIA A100-SXM4-80GB", Vendor: NVIDIA, MemMiB: 81920, PCI: "0000:3b:00.0", NUMA: ptr(0), MIG: &MIGMode{}},
			{UUID: "GPU-1", Index: 1, Model: "NVIDIA A100-SXM4-80GB", Vendor: NVIDIA, MemMiB: 81559, MIG: &MIGMode{Cur: true, Pend: true}, Health: []HealthEvent{{Code: "xid-79"}}},
			{UUID: "PPU-2", Index: 2, Model: "PPU-ZW810E", Vendor: PPU, MemMiB: 98304},
			{UUID: "AMD-3", Index: 3, Model: "AMD Instinct MI300X", Vendor: AMD, MemMiB: 196608},
			{UUID: "ASIC-4", Index: 4, Model: "NETINT T408", Vendor: NETINT},
		},
		Links: []Link{{0, 1, "nvlink", 12}},
		NICs:  []NIC{{Name: "mlx5_0", PCI: "0000:3c:00.0", NUMA: ptr(0), Ports: []Port{{Num: 1, State: "ACTIVE", Layer: "InfiniBand"}}}},
	}
}

func TestInventoryRoundTrips(t *testing.T) {
	s, err := EncodeInventory(sample())
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeInventory(s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(s, "null") {
		t.Errorf("unknown facts must be absent keys: %s", s)
	}
}

func TestCapacityIsWhatKubeletMustSee(t *testing.T) {
	want := map[string]int64{
		"nvidia.com/gpu":       1,
		"aliyun.com/gpu":       3,   // one NVIDIA, one PPU, one AMD; not the one cut by MIG
		"aliyun.com/gpu-core":  200, // AMD is not shared
		"aliyun.com/gpu-slice": 7,
		// whole units of each card that can be divided, MIG cards included
		"aliyun.com/gpu-memory": 80 + 79 + 96,
		"aliyun.com/rdma":       1000,
	}
	if diff := cmp.Diff(want, sample().Capacity(config.Default())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	mib := sample()
	mib.Unit = config.MiB
	if got := mib.Capacity(config.Default())["aliyun.com/gpu-memory"]; got != 81920+81559+98304 {
		t.Errorf("MiB mode: gpu-memory %d", got)
	}
	down := sample()
	down.NICs[0].Ports[0].State = "DOWN"
	if _, ok := down.Capacity(config.Default())["aliyun.com/rdma"]; ok {
		t.Error("a node whose only port is down offers RDMA")
	}
}

func TestHostileInventoriesAreErrors(t *testing.T) {
	card := `{"uuid":"a","index":0,"model":"T4","vendor":"nvidia","memMiB":1}`
	for name, s := range map[string]string{
		"empty":            "",
		"not JSON":         "{",
		"no version":       `{"unit":"GiB","cards":[]}`,
		"newer version":    `{"v":2,"unit":"GiB","cards":[]}`,
		"other unit":       `{"v":1,"unit":"GB","cards":[]}`,
		"uuid twice":       `{"v":1,"unit":"GiB","cards":[` + card + `,` + strings.Replace(card, `"index":0`, `"index":1`, 1) + `]}`,
		"index twice":      `{"v":1,"unit":"GiB","cards":[` + card + `,` + strings.Replace(card, `"a"`, `"b"`, 1) + `]}`,
		"no uuid":          `{"v":1,"unit":"GiB","cards":[` + strings.Replace(card, `"a"`, `""`, 1) + `]}`,
		"negative memory":  `{"v":1,"unit":"GiB","cards":[` + strings.Replace(card, `"memMiB":1`, `"memMiB":-1`, 1) + `]}`,
		"memory overflows": `{"v":1,"unit":"GiB","cards":[` + strings.Replace(card, `"memMiB":1`, `"memMiB":9223372036854775807`, 1) + `]}`,
		"unknown vendor":   `{"v":1,"unit":"GiB","cards":[` + strings.Replace(card, "nvidia", "acme", 1) + `]}`,
		"link to nowhere":  `{"v":1,"unit":"GiB","cards":[` + card + `],"links":[[0,7,"nvlink",1]]}`,
		"too large":        `{"v":1,"unit":"GiB","agent":"` + strings.Repeat("x", MaxInventoryBytes) + `","cards":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if inv, err := DecodeInventory(s); err == nil {
				t.Errorf("was read as %+v", inv)
			}
		})
	}
}

func FuzzDecodeInventory(f *testing.F) {
	s, _ := EncodeInventory(sample())
	f.Add(s)
	f.Add(`{"v":1,"unit":"GiB","cards":[{"uuid":"a","model":"A100","vendor":"nvidia","memMiB":40960,"mig":{"cur":true,"pend":true}}],"profiles":{"A100":[{"name":"9g","slices":9,"memMiB":1,"size":99,"starts":[-1,300]}]}}`)
	f.Fuzz(func(t *testing.T, s string) {
		inv, err := DecodeInventory(s)
		if err != nil {
			return
		}
		for _, v := range inv.Capacity(config.Default()) {
			if v < 0 {
				t.Errorf("negative capacity %d", v)
			}
		}
		for i := range inv.Cards {
			for _, p := range mig.Candidates(inv.ProfilesOf(&inv.Cards[i]), 3, 0) {
				for _, start := range p.Free(0) {
					if mig.MaskAt(start, p.Size) == 0 {
						t.Errorf("profile %+v has a start that covers nothing", p)
					}
				}
			}
		}
		again, err := EncodeInventory(inv)
		if err != nil {
			return // grew over the limit by escaping
		}
		if _, err := DecodeInventory(again); err != nil {
			t.Errorf("what was read cannot be read again: %v", err)
		}
	})
}

func TestAllocationCountsOnlyForItsPodAndNode(t *testing.T) {
	a := &Allocation{UID: "u", Node: "n", Containers: map[string][]Grant{
		"a": {{Card: "GPU-0", Whole: true}},
		"b": {{Card: "GPU-1", Share: true, Core: ptr(int64(50)), MemMiB: ptr(int64(4096))}, {Card: "GPU-2", Share: true}},
		"c": {{Card: "GPU-3", MIG: "3g.40gb", Start: ptr(4), Size: 4}},
	}}
	s, err := EncodeAllocation(a)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeAllocation(s, "u", "n")
	if err != nil {
		t.Fatal(err)
	}
	a.V = 1
	if diff := cmp.Diff(a, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := DecodeAllocation(s, "other", "n"); err == nil {
		t.Error("counts for another pod")
	}
	if _, err := DecodeAllocation(s, "u", "other"); err == nil {
		t.Error("counts on another node")
	}
}

func TestHostileAllocationsAreErrors(t *testing.T) {
	wrap := func(grant string) string { return `{"v":1,"uid":"u","node":"n","containers":{"a":[` + grant + `]}}` }
	for name, s := range map[string]string{
		"not JSON":            "x",
		"other version":       strings.Replace(wrap(`{"card":"a","whole":true}`), `"v":1`, `"v":2`, 1),
		"no card":             wrap(`{"whole":true}`),
		"whole and share":     wrap(`{"card":"a","whole":true,"core":5}`),
		"core above a card":   wrap(`{"card":"a","core":101}`),
		"core of nothing":     wrap(`{"card":"a","core":0}`),
		"negative memory":     wrap(`{"card":"a","memMiB":-5}`),
		"instance off card":   wrap(`{"card":"a","mig":"3g.40gb","start":6,"size":4}`),
		"instance nowhere":    wrap(`{"card":"a","mig":"3g.40gb"}`),
		"profile is no name":  wrap(`{"card":"a","mig":"../x","start":0,"size":1}`),
		"start without a MIG": wrap(`{"card":"a","start":0}`),
		"card twice":          wrap(`{"card":"a","whole":true},{"card":"a","whole":true}`),
		"too large":           wrap(`{"card":"` + strings.Repeat("x", MaxAllocationBytes) + `","whole":true}`),
	} {
		t.Run(name, func(t *testing.T) {
			if a, err := DecodeAllocation(s, "u", "n"); err == nil {
				t.Errorf("was read as %+v", a)
			}
		})
	}
}

func FuzzDecodeAllocation(f *testing.F) {
	f.Add(`{"v":1,"uid":"u","node":"n","containers":{"a":[{"card":"GPU-0","core":50,"memMiB":4096}]}}`)
	f.Add(`{"v":1,"uid":"u","node":"n","containers":{"a":[{"card":"GPU-0","mig":"1g.5gb","start":3,"size":1}]}}`)
	f.Fuzz(func(t *testing.T, s string) {
		a, err := DecodeAllocation(s, "u", "n")
		if err != nil {
			return
		}
		for _, gs := range a.Containers {
			for _, g := range gs {
				if g.MIG != "" && g.Mask() == 0 {
					t.Errorf("%+v covers nothing", g)
				}
			}
		}
	})
}

func TestLinksAreShort(t *testing.T) {
	b, err := json.Marshal(Link{0, 3, "icn", 4})
	if err != nil || string(b) != `[0,3,"icn",4]` {
		t.Errorf("got %s, %v", b, err)
	}
	for _, s := range []string{`[]`, `[0,1,"x"]`, `{"a":1}`, `["a",1,"x",1]`} {
		var l Link
		if err := json.Unmarshal([]byte(s), &l); err == nil {
			t.Errorf("%s was read as %+v", s, l)
		}
	}
}
