package mig

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// MemorySlices is the width of the placement line of every MIG capable card
// (NVIDIA MIG user guide: eight memory slices, seven compute slices).
const MemorySlices = 8

// ComputeSlices is how many compute slices a card offers.
const ComputeSlices = 7

// Profile is one kind of MIG instance that a card model offers.
type Profile struct {
	Name   string `json:"name"`   // as nvidia-smi prints it: "3g.40gb"
	Slices int    `json:"slices"` // compute slices
	MemMiB int64  `json:"memMiB"` // memory usable inside the instance
	Size   int    `json:"size"`   // memory slices covered
	Starts []int  `json:"starts"` // legal first memory slices, ascending
}

// Name is a parsed profile name.
type Name struct {
	Slices int
	MemGB  int
	Extra  string // "me" for media extensions, else empty
}

// ParseName reads a profile name: "3g.40gb", "1g.10gb+me". It needs no
// hardware and does not say whether any card has such a profile.
func ParseName(s string) (Name, error) {
	bad := func() (Name, error) {
		return Name{}, fmt.Errorf("MIG profile %q: want the form 3g.40gb or 1g.10gb+me", s)
	}
	base, extra, plus := strings.Cut(s, "+")
	if plus && extra != "me" {
		return bad()
	}
	g, mem, ok := strings.Cut(base, "g.")
	mem, gb := strings.CutSuffix(mem, "gb")
	if !ok || !gb {
		return bad()
	}
	slices, err1 := decimal(g)
	memGB, err2 := decimal(mem)
	if err1 != nil || err2 != nil || slices < 1 || slices > ComputeSlices || memGB < 1 {
		return bad()
	}
	return Name{Slices: slices, MemGB: memGB, Extra: extra}, nil
}

// decimal accepts canonical positive numbers only: no sign, no leading zero.
func decimal(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && strconv.Itoa(n) != s {
		err = strconv.ErrSyntax
	}
	return n, err
}

func (n Name) String() string {
	s := fmt.Sprintf("%dg.%dgb", n.Slices, n.MemGB)
	if n.Extra != "" {
		s += "+" + n.Extra
	}
	return s
}

// AllowedSlices are the values of gpu-slice that exist.
func AllowedSlices() []int { return []int{1, 2, 3, 4, 7} }

// Mask has one bit for each memory slice in use, bit 0 = slice 0.
type Mask uint8

// MaskAt is the mask of size slices from start.
func MaskAt(start, size int) Mask {
	if start < 0 || size <= 0 || start+size > MemorySlices {
		return 0
	}
	return Mask((1<<size - 1) << start)
}

// Free returns the legal starts of p that do not touch used, ascending.
func (p Profile) Free(used Mask) []int {
	var out []int
	for _, s := range p.Starts {
		if m := MaskAt(s, p.Size); m != 0 && m&used == 0 {
			out = append(out, s)
		}
	}
	return out
}

// Room is how many starts Free would return.
func (p Profile) Room(used Mask) int {
	n := 0
	for _, s := range p.Starts {
		if m := MaskAt(s, p.Size); m != 0 && m&used == 0 {
			n++
		}
	}
	return n
}

// Candidates returns the profiles that answer a request for so many compute
// slices with at least memMiB usable, best first: the smallest on the memory
// line, then the least memory, then the name. Media profiles are left out,
// since a card has room for one only and nobody asked for the media engine.
// It is empty if no profile does; the caller says why.
func Candidates(profiles []Profile, slices int, memMiB int64) []Profile {
	var out []Profile
	for _, p := range profiles {
		if p.Slices == slices && p.MemMiB >= memMiB && !strings.Contains(p.Name, "+") && p.valid() {
			out = append(out, p)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if a.Size != b.Size {
			return a.Size < b.Size
		}
		if a.MemMiB != b.MemMiB {
			return a.MemMiB < b.MemMiB
		}
		return a.Name < b.Name
	})
	return out
}

// MaxMemMiB is the most memory that any profile with so many compute slices
// has, 0 if there is none.
func MaxMemMiB(profiles []Profile, slices int) int64 {
	var most int64
	for _, p := range profiles {
		if p.Slices == slices && !strings.Contains(p.Name, "+") && p.MemMiB > most {
			most = p.MemMiB
		}
	}
	return most
}

// valid refuses profiles that no card can have; inventories come from outside.
func (p Profile) valid() bool {
	if p.Slices < 1 || p.Slices > ComputeSlices || p.Size < 1 || p.Size > MemorySlices || p.MemMiB < 1 {
		return false
	}
	for _, s := range p.Starts {
		if s < 0 || s+p.Size > MemorySlices {
			return false
		}
	}
	return len(p.Starts) > 0
}
