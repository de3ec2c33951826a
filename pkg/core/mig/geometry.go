package mig

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
