package mig

// BestStart picks where on a card to put p so that the card keeps the most
// future: among the free legal starts, the one that leaves the largest number
// of (profile, start) pairs of the card still placeable, weighted by size so
// that one large place is worth as much as the small ones inside it; ties go
// to the higher start, because large instances start low. ok is false if no
// start is free.
func BestStart(p Profile, used Mask, profiles []Profile) (start int, ok bool) {
	best := -1
	for _, s := range p.Free(used) {
		if v := Openness(used|MaskAt(s, p.Size), profiles); v >= best {
			best, start, ok = v, s, true
		}
	}
	return start, ok
}

// Openness counts what could still be placed on a card: the sizes of all
// (profile, start) pairs that do not touch used.
func Openness(used Mask, profiles []Profile) int {
	n := 0
	for _, p := range profiles {
		n += len(p.Free(used)) * p.Size
	}
	return n
}

// FreeSlices is how many memory slices are not in use. The eighth is counted:
// a full 7g covers it.
func (m Mask) FreeSlices() int {
	n := 0
	for i := 0; i < MemorySlices; i++ {
		if m&(1<<i) == 0 {
			n++
		}
	}
	return n
}
