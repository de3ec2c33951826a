package place

import (
	"testing"

	"lj.aliyun.com/kit/pkg/core/coretest"
)

func TestFamiliesOfCards(t *testing.T) {
	for model, want := range map[string]struct {
		family Family
		counts []int64
	}{
		coretest.PPU810E:  {PPU810E, []int64{2, 4, 8}},
		coretest.PPUM890P: {PPUM890P, []int64{2, 3, 4, 5, 6, 7, 8, 9}},
		coretest.A100x80:  {Other, []int64{2, 3, 4, 5, 6, 7, 8, 9}},
		"":                {Other, []int64{2, 3, 4, 5, 6, 7, 8, 9}},
	} {
		f := FamilyOf(model)
		if f != want.family {
			t.Errorf("%q: family %d, want %d", model, f, want.family)
		}
		uses := map[int64]bool{}
		for _, n := range want.counts {
			uses[n] = true
		}
		for n := range int64(10) {
			if got := f.UsesTopology(n); got != uses[n] {
				t.Errorf("%q: %d cards by topology: %v", model, n, got)
			}
		}
	}
}
