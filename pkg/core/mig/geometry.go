package mig

import "slices"

// Openness counts what could still be placed on a card: the sizes of all
// (profile, start) pairs that do not touch used, so that one large place is
// worth as much as the small ones inside it. Of several starts, the one that
// leaves the largest Openness spoils the card least.
func Openness(used Mask, profiles []Profile) int {
	n := 0
	for _, p := range profiles {
		n += p.Room(used) * p.Size
	}
	return n
}

// Most is how many instances of the profiles can lie on a card side by side.
func Most(used Mask, profiles []Profile) int {
	n := 0
	for end := 1; end <= MemorySlices; end++ { // the one that ends first is in the way of the fewest others
		for _, p := range profiles {
			m := MaskAt(end-p.Size, p.Size)
			if m != 0 && m&used == 0 && slices.Contains(p.Starts, end-p.Size) {
				used |= 1<<end - 1
				n++
				break
			}
		}
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
