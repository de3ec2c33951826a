package topo_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/topo"
)

// at makes a position; an empty switch and numbers below 0 are not known.
func at(sw string, numa, socket int) topo.Position {
	p := topo.Position{Switch: sw}
	if numa >= 0 {
		p.NUMA = &numa
	}
	if socket >= 0 {
		p.Socket = &socket
	}
	return p
}

func TestTheTierIsTheNearestThingKnownToBeShared(t *testing.T) {
	tests := map[string]struct {
		a, b topo.Position
		want topo.Tier
	}{
		"one switch":                                      {at("A", 0, 0), at("A", 0, 0), topo.Switch},
		"one switch, NUMA node unknown":                   {at("A", -1, -1), at("A", -1, -1), topo.Switch},
		"one NUMA node is not one switch":                 {at("A", 0, 0), at("B", 0, 0), topo.NUMA},
		"root ports of their own":                         {at("", 0, 0), at("", 0, 0), topo.NUMA},
		"two NUMA nodes of one socket, as with NPS4":      {at("A", 3, 0), at("B", 1, 0), topo.Socket},
		"two sockets":                                     {at("A", 0, 0), at("B", 1, 1), topo.CrossSocket},
		"other domain, same bus and device":               {at("0000:04:00.0", 0, -1), at("0001:04:00.0", 1, -1), topo.CrossSocket},
		"two NUMA nodes, sockets unknown: the worse":      {at("A", 0, -1), at("B", 1, 0), topo.CrossSocket},
		"NUMA node unknown, socket known":                 {at("A", -1, 0), at("B", 0, 0), topo.Socket},
		"nothing is known of one":                         {at("", -1, -1), at("B", 0, 0), topo.Unknown},
		"an unknown node is not node 0":                   {at("", -1, -1), at("", 0, -1), topo.Unknown},
		"two unknown switches are not one":                {at("", -1, -1), at("", -1, -1), topo.Unknown},
		"a switch on one side only":                       {at("A", -1, -1), at("", -1, -1), topo.Unknown},
		"a guest with one NUMA node and many sockets":     {at("", 0, 0), at("", 0, 5), topo.NUMA},
		"switches known to differ and nothing else known": {at("A", -1, -1), at("B", -1, -1), topo.Unknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := topo.Between(tt.a, tt.b); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if got := topo.Between(tt.b, tt.a); got != tt.want {
				t.Errorf("the other way round: got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTierNames(t *testing.T) {
	var names []string
	for i, tier := range topo.Tiers() {
		if int(tier) != i {
			t.Errorf("tier %d is at place %d", tier, i)
		}
		names = append(names, tier.String())
	}
	if want := []string{"", "switch", "numa", "socket", "cross-socket", "unknown"}; !slices.Equal(names, want) {
		t.Errorf("got %q", names)
	}
}

func drawPosition(t *rapid.T, name string) topo.Position {
	sw := rapid.IntRange(0, 7).Draw(t, name) // 8 switches on 4 NUMA nodes of 2 sockets
	return at(string(rune('A'+sw)), sw/2, sw/4)
}

func forget(t *rapid.T, p topo.Position) topo.Position {
	if rapid.Bool().Draw(t, "noSwitch") {
		p.Switch = ""
	}
	if rapid.Bool().Draw(t, "noNUMA") {
		p.NUMA = nil
	}
	if rapid.Bool().Draw(t, "noSocket") {
		p.Socket = nil
	}
	return p
}

func TestForgettingFactsNeverBringsDevicesNearer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawPosition(t, "a"), drawPosition(t, "b")
		known, less := topo.Between(a, b), topo.Between(forget(t, a), forget(t, b))
		if less < known {
			t.Fatalf("with all facts %q, with fewer %q", known, less)
		}
		if topo.Span([]topo.Position{a, b}) != known {
			t.Fatal("the span of two is their tier")
		}
	})
}
