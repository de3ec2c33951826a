package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
)

// agentName is the writer that simulated inventories name.
const agentName = "ljsandbox"

// Inventory is what the node's agent publishes in a cluster that counts
// memory in this unit; nil if the node has no agent.
func (n *Node) Inventory(unit config.Unit) *device.Inventory {
	if !n.Agent {
		return nil
	}
	inv := &device.Inventory{V: device.InventoryVersion, Unit: unit, Agent: agentName, Boot: uuid(n.Name, "boot"), Cards: []device.Card{}}
	layout := twoSockets
	if c := n.Cards; c != nil {
		layout = c.Model.Layout
		for i := range c.Count {
			inv.Cards = append(inv.Cards, n.card(i))
		}
		if c.Model.links != nil {
			inv.Links = c.Model.links(c.Count)
		}
	}
	for i := range n.NICs.Count {
		inv.NICs = append(inv.NICs, n.nic(i, layout))
	}
	return inv
}

func (n *Node) card(i int) device.Card {
	c := n.Cards
	at := place(c.Model.Layout, i, c.Count)
	minor := i
	card := device.Card{
		UUID:   c.Model.prefix + uuid(n.Name, fmt.Sprintf("card-%d", i)),
		Index:  i,
		Minor:  &minor,
		Model:  c.Model.Product,
		Vendor: c.Model.Vendor,
		MemMiB: c.Model.MemMiB,
		PCI:    at.address(0),
		Switch: at.switchAddress(),
		NUMA:   &at.numa,
		Socket: &at.socket,
	}
	if c.Model.hasMIG() {
		on := c.MIG.In(i)
		card.MIG = &device.MIGMode{Cur: on, Pend: on}
	}
	for _, s := range c.Health {
		if s.Card == i {
			card.Health = append(card.Health, s.Event)
		}
	}
	return card
}

func (n *Node) nic(i int, layout Layout) device.NIC {
	at := place(layout, i, n.NICs.Count)
	port := device.Port{Num: 1, State: "ACTIVE", Layer: "Ethernet", Gbps: n.NICs.Gbps}
	if slices.Contains(n.NICs.Down, i) {
		port.State = "DOWN"
	}
	id := uuid(n.Name, fmt.Sprintf("nic-%d", i))
	return device.NIC{
		Name:   fmt.Sprintf("mlx5_%d", i),
		GUID:   fmt.Sprintf("%s:%s:%s:%s", id[0:4], id[4:8], id[9:13], id[14:18]),
		PCI:    at.address(0x80),
		Switch: at.switchAddress(),
		NUMA:   &at.numa,
		Socket: &at.socket,
		Ports:  []device.Port{port},
	}
}

// spot is a slot below a switch.
type spot struct {
	socket, numa, sw, slot int
}

// place spreads count devices evenly over the switches, in order. With fewer
// devices than switches they are spaced out.
func place(l Layout, i, count int) spot {
	switches := l.switches()
	sw := i * switches / count
	slot := i
	for k := 0; k < i; k++ {
		if k*switches/count != sw {
			slot--
		}
	}
	numa := sw / l.SwitchesPerNUMA
	return spot{socket: numa / l.NUMAPerSocket, numa: numa, sw: sw, slot: slot}
}

// address is the kernel's form of a PCI address: every switch has a bus range
// of its own, so that devices below it share no bus with others.
func (s spot) address(offset int) string {
	n := s.sw*0x100 + offset + s.slot
	return fmt.Sprintf("%04x:%02x:00.0", n>>8, 0x10+n&0xff)
}

func (s spot) switchAddress() string { return fmt.Sprintf("%04x:01:00.0", s.sw) }

// hasMIG tells whether the model has a MIG mode at all.
func (m *Model) hasMIG() bool {
	inv := device.Inventory{}
	return len(inv.ProfilesOf(&device.Card{Model: m.Product, Vendor: m.Vendor, MemMiB: m.MemMiB})) > 0
}

// uuid is always the same for a node and a part of it, and looks like what
// drivers make.
func uuid(node, part string) string {
	sum := sha256.Sum256([]byte(node + "/" + part))
	h := hex.EncodeToString(sum[:16])
	return strings.Join([]string{h[0:8], h[8:12], h[12:16], h[16:20], h[20:32]}, "-")
}

func joined(words []string) string { return strings.Join(words, ", ") }
