package place

import "strings"

// Family is a line of cards for which the product's guide has rules of its own
// about cards of one node.
type Family int

// The families. Other has all cards that the guide says nothing about.
const (
	Other Family = iota
	PPU810E
	PPUM890P
)

// FamilyOf reads the product name in an inventory.
func FamilyOf(model string) Family {
	switch {
	case strings.Contains(model, "810E"):
		return PPU810E
	case strings.Contains(model, "M890P"):
		return PPUM890P
	}
	return Other
}

// UsesTopology tells whether so many cards are placed by how near they are to
// each other: with 810E for 2, 4 and 8 cards, else for any number above one.
func (f Family) UsesTopology(count int64) bool {
	if f == PPU810E {
		return count == 2 || count == 4 || count == 8
	}
	return count > 1
}
