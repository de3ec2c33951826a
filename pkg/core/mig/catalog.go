package mig

import "strings"

// kinds are the instance shapes that every seven-slice card shares. Source:
// `nvidia-smi mig -lgipp` of A100 40/80, H100 80 and H100 NVL, which agree.
var kinds = []struct {
	slices, size int
	starts       []int
}{
	{1, 1, []int{0, 1, 2, 3, 4, 5, 6}},
	{1, 2, []int{0, 2, 4, 6}}, // 1g with double memory
	{2, 2, []int{0, 2, 4}},
	{3, 4, []int{0, 4}},
	{4, 4, []int{0}},
	{7, 8, []int{0}},
}

// family is one row of NVIDIA's table of supported profiles. memMiB follow
// kinds; they are what -lgip prints (GiB), in MiB. The 94 and 96 GB and the
// H200 rows are scaled from the nominal sizes, since no printed table for
// them was at hand; a driver's own table, when there is one, replaces all.
type family struct {
	models   []string
	minMiB   int64 // the card's memory decides between variants of a model
	maxMiB   int64
	profiles [6]string
	memMiB   [6]int64
}

var families = []family{
	{[]string{"A100", "A800"}, 39000, 42000,
		[6]string{"1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"},
		[6]int64{4864, 9856, 9856, 19968, 19968, 40192}},
	{[]string{"A100", "A800"}, 79000, 83000,
		[6]string{"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
		[6]int64{9728, 19968, 19968, 40192, 40192, 80384}},
	{[]string{"H100", "H800"}, 79000, 83000,
		[6]string{"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
		[6]int64{9984, 20096, 20096, 40448, 40448, 81152}},
	{[]string{"H100", "H800"}, 94000, 96000,
		[6]string{"1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"},
		[6]int64{11264, 22528, 22528, 46080, 46080, 95232}},
	{[]string{"H20", "H100"}, 96001, 99000,
		[6]string{"1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"},
		[6]int64{11264, 22528, 22528, 47104, 47104, 96256}},
	{[]string{"H200"}, 140000, 148000,
		[6]string{"1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"},
		[6]int64{16896, 34304, 34304, 71168, 71168, 143360}},
}

// Catalogue returns the profiles of a card model by its product name and
// memory, nil if the model is not known here. What a driver reports in the
// inventory wins over this table.
func Catalogue(model string, memMiB int64) []Profile {
	for _, f := range families {
		if memMiB < f.minMiB || memMiB > f.maxMiB || !hasWord(model, f.models) {
			continue
		}
		out := make([]Profile, 0, len(kinds))
		for i, k := range kinds {
			out = append(out, Profile{Name: f.profiles[i], Slices: k.slices, MemMiB: f.memMiB[i], Size: k.size,
				Starts: append([]int(nil), k.starts...)})
		}
		return out
	}
	return nil
}

func hasWord(model string, words []string) bool {
	for _, m := range strings.FieldsFunc(model, func(r rune) bool { return r == ' ' || r == '-' || r == '_' }) {
		for _, w := range words {
			if strings.EqualFold(m, w) {
				return true
			}
		}
	}
	return false
}
