package topo_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/topo"
)

// c116 is a host with a NIC for each card, two NICs of its storage network on
// the first switch, and the port of the fourth card's NIC down.
func c116() *device.Inventory {
	b := coretest.Node("n", cfg).Cards(8, coretest.H800)
	for i := range 8 {
		b.At(i, string(rune('A'+i)), i/4, i/4).NICAt(string(rune('A'+i)), i/4, i/4)
	}
	b.NICAt("A", 0, 0).NICAt("A", 0, 0).Down(3)
	inv := b.Obj().Inventory
	for i := 8; i < 10; i++ {
		inv.NICs[i].PCI = "0000:0" + string(rune('0'+i)) + ":00.0" // before the others
		inv.NICs[i].Ports[0].Layer, inv.NICs[i].Ports[0].Gbps = "Ethernet", 25
	}
	return inv
}

func assign(inv *device.Inventory, cards ...int) map[int]string {
	var list []*device.Card
	for _, c := range cards {
		list = append(list, &inv.Cards[c])
	}
	out := map[int]string{}
	for _, p := range topo.Assign(list, topo.Fabric(inv.NICs)) {
		out[p.Card.Index] = p.NIC.Name + " " + p.Tier.String()
	}
	return out
}

func TestEachCardGetsTheNearestNICInService(t *testing.T) {
	m890p := coretest.M890P("n", cfg, 4).Obj().Inventory
	unknown := coretest.M890PUnknown("n", cfg).Obj().Inventory
	dgx := coretest.DGXA100("n", cfg).Obj().Inventory
	slow := c116()
	for i := range 8 {
		slow.NICs[i].Ports[0].State = "DOWN"
	}
	tests := map[string]struct {
		inv   *device.Inventory
		cards []int
		want  map[int]string
	}{
		"storage NICs and ports that are down are passed over": {c116(), []int{0, 1, 2, 3}, map[int]string{
			0: "mlx5_0 switch", 1: "mlx5_1 switch", 2: "mlx5_2 switch", 3: "mlx5_0 numa"}},
		"a card without its own takes the least taken one": {c116(), []int{0, 3}, map[int]string{0: "mlx5_0 switch", 3: "mlx5_1 numa"}},
		"two cards and two NICs on a switch are two pairs": {dgx, []int{0, 1, 2}, map[int]string{0: "mlx5_0 switch", 1: "mlx5_1 switch", 2: "mlx5_2 switch"}},
		"two cards share the NIC of their switch":          {m890p, []int{0, 1, 2}, map[int]string{0: "mlx5_0 switch", 1: "mlx5_0 switch", 2: "mlx5_1 switch"}},
		"unknown stays unknown":                            {unknown, []int{6, 7}, map[int]string{6: "mlx5_2 socket", 7: "mlx5_0 unknown"}},
		"where nothing else is in service, what there is":  {slow, []int{0, 5}, map[int]string{0: "mlx5_8 switch", 5: "mlx5_9 cross-socket"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, assign(tt.inv, tt.cards...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheFabricIsTheNetworkOfTheHost(t *testing.T) {
	nic := func(pci, layer, state string, gbps int) device.NIC {
		return device.NIC{Name: pci, PCI: pci, Ports: []device.Port{{Num: 1, State: state, Layer: layer, Gbps: gbps}}}
	}
	tests := map[string]struct {
		nics []device.NIC
		want []string
	}{
		"no NICs": {nil, nil},
		"in the order of addresses, not of text": {[]device.NIC{
			nic("10000:02:00.0", "", "ACTIVE", 0), nic("0000:CF:00.1", "", "ACTIVE", 0), nic("0000:8a:00.1", "", "ACTIVE", 0)},
			[]string{"0000:8a:00.1", "0000:CF:00.1", "10000:02:00.0"}},
		"the rarer layer is another network": {[]device.NIC{
			nic("0000:01:00.0", "Ethernet", "ACTIVE", 200), nic("0000:02:00.0", "InfiniBand", "ACTIVE", 200), nic("0000:03:00.0", "InfiniBand", "ACTIVE", 200)},
			[]string{"0000:02:00.0", "0000:03:00.0"}},
		"ports that are down count for the layer": {[]device.NIC{
			nic("0000:01:00.0", "Ethernet", "ACTIVE", 200), nic("0000:02:00.0", "InfiniBand", "DOWN", 0), nic("0000:03:00.0", "InfiniBand", "ACTIVE", 200)},
			[]string{"0000:03:00.0"}},
		"another layer is better than none": {[]device.NIC{
			nic("0000:01:00.0", "Ethernet", "ACTIVE", 200), nic("0000:02:00.0", "InfiniBand", "DOWN", 0), nic("0000:03:00.0", "InfiniBand", "DOWN", 0)},
			[]string{"0000:01:00.0"}},
		"half the rate is near enough": {[]device.NIC{nic("0000:01:00.0", "Ethernet", "ACTIVE", 200), nic("0000:02:00.0", "Ethernet", "ACTIVE", 400)},
			[]string{"0000:01:00.0", "0000:02:00.0"}},
		"without ports or address": {[]device.NIC{{Name: "a"}, {Name: "b", PCI: "0000:01:00.0"}}, []string{"0000:01:00.0"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, n := range topo.Fabric(tt.nics) {
				got = append(got, n.PCI)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoNICGetsASecondCardBeforeItsNeighbourHasOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := coretest.Node("n", cfg).Cards(8, coretest.H800)
		for i := range 8 {
			b.At(i, rapid.SampledFrom([]string{"", "A", "B"}).Draw(t, "switch"), rapid.IntRange(-1, 1).Draw(t, "numa"), -1)
		}
		nics := rapid.IntRange(1, 8).Draw(t, "nics")
		for i := range nics {
			b.NICAt(rapid.SampledFrom([]string{"", "A", "B"}).Draw(t, "switch"), rapid.IntRange(-1, 1).Draw(t, "numa"), -1)
			if i > 0 && rapid.IntRange(0, 3).Draw(t, "down") == 0 {
				b.Down(i)
			}
		}
		inv := b.Obj().Inventory
		var cards []*device.Card
		for i := range inv.Cards {
			cards = append(cards, &inv.Cards[i])
		}
		taken := map[string]int{}
		pairs := topo.Assign(cards, topo.Fabric(inv.NICs))
		for _, p := range pairs {
			if !p.NIC.Usable() {
				t.Fatalf("%s is down", p.NIC.Name)
			}
			if p.Tier == topo.Switch {
				taken[p.NIC.PCI]++
			}
		}
		for _, p := range pairs {
			for _, n := range topo.Fabric(inv.NICs) {
				tier := topo.Between(topo.OfCard(p.Card), topo.OfNIC(n))
				if tier < p.Tier {
					t.Fatalf("%s is nearer to card %d than %s", n.Name, p.Card.Index, p.NIC.Name)
				}
				if p.Tier == topo.Switch && tier == topo.Switch && taken[p.NIC.PCI] > taken[n.PCI]+1 {
					t.Fatalf("%s has %d cards, %s on the same switch %d", p.NIC.Name, taken[p.NIC.PCI], n.Name, taken[n.PCI])
				}
			}
		}
	})
}
