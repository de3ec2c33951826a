package mig

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseNameRoundTrips(t *testing.T) {
	for _, s := range []string{"1g.5gb", "1g.10gb+me", "3g.40gb", "7g.141gb"} {
		n, err := ParseName(s)
		if err != nil || n.String() != s {
			t.Errorf("%q: got %v, %v", s, n, err)
		}
	}
	for _, s := range []string{"", "3g", "3g.gb", "g.40gb", "03g.40gb", "+3g.40gb", "8g.40gb", "3g.40gb+xx", "3g.40GB", "3g.-1gb", "3g.40gb+me+me", "3g.40gbx"} {
		if n, err := ParseName(s); err == nil {
			t.Errorf("%q was read as %v", s, n)
		}
	}
}

func FuzzParseName(f *testing.F) {
	f.Add("3g.40gb")
	f.Add("1g.10gb+me")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseName(s); err == nil && n.String() != s {
			t.Errorf("%q became %q", s, n.String())
		}
	})
}

// The legal full layouts of a seven-slice card without the double-memory 1g,
// counted by trying all placements: the table is NVIDIA's.
func TestCatalogueGivesNVIDIAsLayouts(t *testing.T) {
	var plain []Profile
	for _, p := range Catalogue("NVIDIA A100-SXM4-80GB", 81920) {
		if p.Name != "1g.20gb" {
			plain = append(plain, p)
		}
	}
	want := []string{"1111111", "111112", "11122", "1222", "11113", "1113", "1123", "123", "223", "33", "1114", "124", "34", "7"}
	got := maximalLayouts(plain)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("layouts (-want +got):\n%s", diff)
	}
}

func maximalLayouts(ps []Profile) []string {
	set := map[string]bool{}
	var place func(used Mask, names []byte)
	place = func(used Mask, names []byte) {
		full := true
		for _, p := range ps {
			for _, s := range p.Free(used) {
				full = false
				place(used|MaskAt(s, p.Size), append(slices.Clone(names), byte('0'+p.Slices)))
			}
		}
		if full {
			slices.Sort(names)
			set[string(names)] = true
		}
	}
	place(0, nil)
	var out []string
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func TestNoLayoutUsesMoreComputeThanTheCardHas(t *testing.T) {
	ps := Catalogue("NVIDIA H800", 81559)
	if len(ps) == 0 {
		t.Fatal("H800 is not in the catalogue")
	}
	seen := map[[2]int]bool{}
	var place func(used Mask, compute int)
	place = func(used Mask, compute int) {
		if compute > ComputeSlices {
			t.Fatalf("placement %08b uses %d compute slices", used, compute)
		}
		if k := [2]int{int(used), compute}; seen[k] {
			return
		} else {
			seen[k] = true
		}
		for _, p := range ps {
			for _, s := range p.Free(used) {
				place(used|MaskAt(s, p.Size), compute+p.Slices)
			}
		}
	}
	place(0, 0)
}

func TestCandidates(t *testing.T) {
	ps := append(Catalogue("NVIDIA A100-SXM4-40GB", 40960), Profile{Name: "1g.5gb+me", Slices: 1, MemMiB: 4864, Size: 1, Starts: []int{0}})
	tests := map[string]struct {
		slices int
		mem    int64
		want   []string
	}{
		"one slice takes the small one, then the one with double memory": {1, 0, []string{"1g.5gb", "1g.10gb"}},
		"memory is a floor":                       {1, 5 * 1024, []string{"1g.10gb"}},
		"usable memory counts, not the name":      {3, 20 * 1024, nil},
		"no profile has five slices":              {5, 0, nil},
		"seven slices are the whole card":         {7, 39 * 1024, []string{"7g.40gb"}},
		"a floor above the card's profile is not": {7, 40 * 1024, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range Candidates(ps, tt.slices, tt.mem) {
				got = append(got, p.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCatalogueKnowsModelsByWord(t *testing.T) {
	for model, mem := range map[string]int64{"A100-SXM4-40GB": 40960, "NVIDIA A100 80GB PCIe": 81920, "NVIDIA H800": 81559, "NVIDIA H20": 97871, "NVIDIA H200": 143771, "NVIDIA H100 NVL": 95830} {
		if len(Catalogue(model, mem)) != len(kinds) {
			t.Errorf("%s with %d MiB has no profiles", model, mem)
		}
	}
	for model, mem := range map[string]int64{"Tesla T4": 15360, "NVIDIA A10G": 23028, "NVIDIA RTX A6000": 49140, "PPU-ZW810E": 98304, "NVIDIA A1000": 40960} {
		if p := Catalogue(model, mem); p != nil {
			t.Errorf("%s has profiles %v", model, p)
		}
	}
}
