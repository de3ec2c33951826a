package topo

import "lj.aliyun.com/kit/pkg/core/device"

// Tier is the nearest thing that two devices share. A larger one is worse.
type Tier uint8

// The tiers, nearest first: the four levels of the product's fallback, and
// Unknown, which is worse than any known one. None means that there were no
// two devices to compare.
const (
	None Tier = iota
	Switch
	NUMA
	Socket
	CrossSocket
	Unknown
)

// Tiers lists every Tier.
func Tiers() []Tier { return []Tier{None, Switch, NUMA, Socket, CrossSocket, Unknown} }

// String is the name used in allocations and events; None is empty.
func (t Tier) String() string {
	switch t {
	case Switch:
		return "switch"
	case NUMA:
		return "numa"
	case Socket:
		return "socket"
	case CrossSocket:
		return "cross-socket"
	case Unknown:
		return "unknown"
	}
	return ""
}

// Position is what is known of where a device sits.
type Position struct {
	Switch string // address of the nearest PCIe switch, empty if unknown or none
	NUMA   *int
	Socket *int
}

// OfCard is the position of a card.
func OfCard(c *device.Card) Position {
	return Position{Switch: c.Switch, NUMA: c.NUMA, Socket: c.Socket}
}

// OfNIC is the position of a NIC.
func OfNIC(n *device.NIC) Position {
	return Position{Switch: n.Switch, NUMA: n.NUMA, Socket: n.Socket}
}

// Between is the tier of two devices: the nearest thing that both are known to
// share. Devices on NUMA nodes that differ are across sockets unless the
// sockets are known to be one: nvidia-smi and NCCL say SYS for both. Where
// neither node nor socket can be compared, the tier is Unknown.
func Between(a, b Position) Tier {
	switch {
	case a.Switch != "" && a.Switch == b.Switch:
		return Switch
	case a.NUMA != nil && b.NUMA != nil && *a.NUMA == *b.NUMA:
		return NUMA
	case a.Socket != nil && b.Socket != nil:
		if *a.Socket == *b.Socket {
			return Socket
		}
		return CrossSocket
	case a.NUMA != nil && b.NUMA != nil:
		return CrossSocket
	}
	return Unknown
}

// Span is the worst tier of any two of the devices: the smallest place that
// holds them all. It is None for fewer than two.
func Span(at []Position) Tier {
	worst := None
	for i := range at {
		for j := range i {
			worst = max(worst, Between(at[i], at[j]))
		}
	}
	return worst
}
