package topo

import (
	"cmp"
	"slices"

	"lj.aliyun.com/kit/pkg/core/device"
)

// Fabric lists the NICs that RDMA pods are given, in the order of their PCI
// addresses: those with a port in service on the network for which the host
// was built. NICs of less than half the rate of the fastest are its storage
// and front-end networks, and so are those of the rarer link layer, counted
// with the ports that are down; what is not known excludes nothing, and where
// nothing else is in service these are taken too. A NIC without an address
// cannot be named in an allocation and is left out.
func Fabric(nics []device.NIC) []*device.NIC {
	var out []*device.NIC
	for i := range nics {
		if nics[i].PCI != "" && nics[i].Usable() {
			out = append(out, &nics[i])
		}
	}
	fastest := 0
	for _, n := range out {
		fastest = max(fastest, rate(n))
	}
	out = slices.DeleteFunc(out, func(n *device.NIC) bool { r := rate(n); return r > 0 && 2*r < fastest })
	layer := commonLayer(nics)
	other := func(n *device.NIC) bool { l := layerOf(n); return l != "" && l != layer }
	if !all(out, other) {
		out = slices.DeleteFunc(out, other)
	}
	slices.SortFunc(out, func(a, b *device.NIC) int {
		return cmp.Or(compareText(a.PCI, b.PCI), cmp.Compare(a.Name, b.Name), cmp.Compare(a.GUID, b.GUID))
	})
	return out
}

// rate is that of the NIC's fastest port in service, 0 if unknown.
func rate(n *device.NIC) int {
	most := 0
	for _, p := range n.Ports {
		if p.State == "ACTIVE" {
			most = max(most, p.Gbps)
		}
	}
	return most
}

// layerOf is the link layer of the fastest port in service, else of the first
// port; empty if unknown.
func layerOf(n *device.NIC) string {
	layer, most := "", -1
	for _, p := range n.Ports {
		if p.State == "ACTIVE" && p.Gbps > most {
			layer, most = p.Layer, p.Gbps
		}
	}
	if most < 0 && len(n.Ports) > 0 {
		return n.Ports[0].Layer
	}
	return layer
}

// commonLayer is the layer of most of the NICs; of equally many, InfiniBand,
// which is built for this alone. Empty if none is known.
func commonLayer(nics []device.NIC) string {
	count := map[string]int{}
	for i := range nics {
		if layer := layerOf(&nics[i]); layer != "" {
			count[layer]++
		}
	}
	best := ""
	for layer, k := range count {
		if best == "" || k > count[best] || k == count[best] && (layer == "InfiniBand" || best != "InfiniBand" && layer < best) {
			best = layer
		}
	}
	return best
}

func all(nics []*device.NIC, is func(*device.NIC) bool) bool {
	for _, n := range nics {
		if !is(n) {
			return false
		}
	}
	return true
}

// Nearest is the tier of the card and the NIC nearest to it, Unknown if there
// is none.
func Nearest(c *device.Card, fabric []*device.NIC) Tier {
	best := Unknown
	at := OfCard(c)
	for _, n := range fabric {
		best = min(best, Between(at, OfNIC(n)))
	}
	return best
}

// Pair is a card and the NIC that it was given.
type Pair struct {
	Card *device.Card
	NIC  *device.NIC
	Tier Tier
}

// Assign gives each card one NIC of its nearest tier. Cards share NICs; of
// several that are equally near, each takes the one that the fewest cards of
// this pod have, so that no switch gives a second card to one NIC while
// another of its NICs has none. Those with NICs nearest by choose first, since
// the others have more to choose from. The pairs are in the order of cards;
// there are none on a host without a fabric.
func Assign(cards []*device.Card, fabric []*device.NIC) []Pair {
	if len(fabric) == 0 {
		return nil
	}
	out := make([]Pair, len(cards))
	for i, c := range cards {
		out[i] = Pair{Card: c, Tier: Nearest(c, fabric)}
	}
	taken := make([]int, len(fabric))
	for _, tier := range Tiers()[1:] {
		for i := range out {
			p := &out[i]
			if p.Tier != tier {
				continue
			}
			best := -1
			for j, n := range fabric {
				if Between(OfCard(p.Card), OfNIC(n)) == tier && (best < 0 || taken[j] < taken[best]) {
					best = j
				}
			}
			taken[best]++
			p.NIC = fabric[best]
		}
	}
	return out
}
