package place

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/topo"
)

// MaxSummary bounds a Summary, in bytes: an event's note has room for 1,024.
const MaxSummary = 400

// Summary says in one line what the pod got, for events and logs: the cards of
// each container by index with what joins them, then the NICs with the tier
// that they reach, and why a card reaches less than its switch:
//
//	cards 2,3 (NVLink); NICs mlx5_0,mlx5_1 at switch
//	card 3: 30 %, 8 GiB
//	cards 2-5 (across sockets); NICs mlx5_1,mlx5_2 at switch
//	card 4: NIC mlx5_0 at numa, no NIC of the RDMA network at its switch 0000:5e:00.0
//
// inv is the inventory of the node that made the offer. Cards that it does not
// have are named by UUID. A line beyond MaxSummary is cut between its parts.
func (o *Offer) Summary(inv *device.Inventory) string {
	var parts []string
	names := make([]string, 0, len(o.Containers))
	for name, grants := range o.Containers {
		if len(grants) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		text := grantsText(inv, o.Containers[name])
		if len(names) > 1 {
			text = name + ": " + text
		}
		parts = append(parts, text)
	}
	return cutParts(append(parts, o.nicTexts(inv)...))
}

// cutParts joins parts as far as there is room.
func cutParts(parts []string) string {
	const more = "; …"
	text := ""
	for i, p := range parts {
		if i > 0 {
			p = "; " + p
		}
		room := MaxSummary - len(text)
		if i < len(parts)-1 {
			room -= len(more)
		}
		if len(p) > room {
			if i == 0 {
				return strings.ToValidUTF8(p[:MaxSummary-len(more)], "") + more
			}
			return text + more
		}
		text += p
	}
	return text
}

// grantsText is what one container got. Its grants differ in the card alone,
// but for the place of an instance.
func grantsText(inv *device.Inventory, grants []device.Grant) string {
	var cards []*device.Card
	var names []string
	for _, g := range grants {
		if c := inv.Card(g.Card); c != nil {
			cards = append(cards, c)
		}
		names = append(names, cardText(inv, g.Card))
	}
	text := plural("card", len(grants)) + " " + ranges(names)
	if len(cards) > 1 && grants[0].MIG == "" {
		text += " (" + joint(inv, cards) + ")"
	}
	switch g := grants[0]; {
	case g.MIG != "":
		var at []string
		for _, g := range grants {
			at = append(at, fmt.Sprintf("%s at %d", g.MIG, *g.Start))
		}
		text += ": " + strings.Join(slices.Compact(at), ", ")
	case g.Share:
		text += ": " + shareText(inv, g)
		if len(grants) > 1 {
			text += " each"
		}
	}
	return text
}

func shareText(inv *device.Inventory, g device.Grant) string {
	var parts []string
	if g.Core != nil {
		parts = append(parts, fmt.Sprintf("%d %%", *g.Core))
	}
	if g.MemMiB != nil {
		parts = append(parts, fmt.Sprintf("%d %s", *g.MemMiB/inv.Unit.MiB(), inv.Unit))
	}
	if parts == nil {
		return "a share"
	}
	return strings.Join(parts, ", ")
}

// joint says what joins the cards: links that make a ring, else the smallest
// place that holds them all.
func joint(inv *device.Inventory, cards []*device.Card) string {
	if h := topo.New(cards, inv.Links); h != nil && h.Ring(1<<len(cards)-1) >= topo.WorthLink {
		for _, l := range inv.Links {
			has := func(index int) bool {
				return slices.ContainsFunc(cards, func(c *device.Card) bool { return c.Index == index })
			}
			if has(l.A) && has(l.B) && l.N > 0 {
				return linkName(l.Kind)
			}
		}
	}
	at := make([]topo.Position, len(cards))
	for i, c := range cards {
		at[i] = topo.OfCard(c)
	}
	switch topo.Span(at) {
	case topo.Switch:
		return "one PCIe switch"
	case topo.NUMA:
		return "one NUMA node"
	case topo.Socket:
		return "one socket"
	case topo.CrossSocket:
		return "across sockets"
	}
	return "place unknown"
}

// linkName is the vendor's spelling of a kind of link.
func linkName(kind string) string {
	switch strings.ToLower(kind) {
	case "nvlink":
		return "NVLink"
	case "icn":
		return "ICN"
	case "xgmi":
		return "xGMI"
	}
	return kind
}

// nicTexts are the NICs, those that a switch joins to their card together, and
// the others with the cause.
func (o *Offer) nicTexts(inv *device.Inventory) []string {
	if len(o.NICs) == 0 {
		if o.Tier == topo.Unknown {
			return []string{"no NIC in service whose place is known"}
		}
		return nil
	}
	var near []string
	var parts []string
	type lack struct{ nic, tier, cause string }
	var lacks []lack
	cards := map[lack][]string{}
	for _, g := range o.NICs {
		name := nicText(inv, g.PCI)
		if g.Tier == topo.Switch.String() {
			if !slices.Contains(near, name) {
				near = append(near, name)
			}
			continue
		}
		l := lack{name, g.Tier, farCause(inv, g.Card)}
		if cards[l] == nil {
			lacks = append(lacks, l)
		}
		cards[l] = append(cards[l], cardText(inv, g.Card))
	}
	if len(near) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s at switch", plural("NIC", len(near)), strings.Join(near, ",")))
	}
	for _, l := range lacks {
		parts = append(parts, fmt.Sprintf("%s %s: NIC %s at %s, %s", plural("card", len(cards[l])), ranges(cards[l]), l.nic, l.tier, l.cause))
	}
	return parts
}

// farCause is why a card has no NIC at its switch.
func farCause(inv *device.Inventory, uuid string) string {
	c := inv.Card(uuid)
	if c == nil || c.Switch == "" {
		return "no PCIe switch is known above it"
	}
	for i := range inv.NICs {
		if n := &inv.NICs[i]; n.Switch == c.Switch && !n.Usable() {
			return n.Name + " at its switch has no port in service"
		}
	}
	return "no NIC of the RDMA network at its switch " + c.Switch
}

func cardText(inv *device.Inventory, uuid string) string {
	if c := inv.Card(uuid); c != nil {
		return strconv.Itoa(c.Index)
	}
	return uuid
}

func nicText(inv *device.Inventory, pci string) string {
	for i := range inv.NICs {
		if inv.NICs[i].PCI == pci && inv.NICs[i].Name != "" {
			return inv.NICs[i].Name
		}
	}
	return pci
}

func plural(noun string, n int) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// ranges joins numbers in ascending order, three and more in a row as 2-7.
func ranges(names []string) string {
	var out []string
	for i := 0; i < len(names); {
		j := i
		for j+1 < len(names) && follows(names[j], names[j+1]) {
			j++
		}
		if j-i < 2 {
			j = i
			out = append(out, names[i])
		} else {
			out = append(out, names[i]+"-"+names[j])
		}
		i = j + 1
	}
	return strings.Join(out, ",")
}

func follows(a, b string) bool {
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	return err1 == nil && err2 == nil && y == x+1
}
