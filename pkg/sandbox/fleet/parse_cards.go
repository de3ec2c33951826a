package fleet

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/mig"
)

func (d *decoder) cards(n *yaml.Node, path string) *Cards {
	before := len(d.problems)
	c := &Cards{}
	var name, vendor string
	var count, mem int64
	var layout *Layout
	d.mapping(n, path, map[string]field{
		"model":  d.text(&name),
		"count":  d.integer(&count, 1, device.MaxCards),
		"memMiB": d.integer(&mem, 1, 16<<20),
		"vendor": d.text(&vendor),
		"mig":    d.mig(&c.MIG),
		"health": func(n *yaml.Node, path string) {
			d.list(n, path, func(n *yaml.Node, path string) { d.sick(&c.Health, n, path) })
		},
		"layout": func(n *yaml.Node, path string) { layout = d.layout(n, path) },
	})
	if len(d.problems) > before {
		return nil
	}
	if !d.model(&c.Model, n, path, name, vendor, mem) {
		return nil
	}
	if layout != nil {
		c.Model.Layout = *layout
	}
	if c.Count = int(count); count == 0 {
		c.Count = c.Model.Cards
	}
	d.checkCards(c, n, path)
	return c
}

// model finds the model by its short name, or takes the file's word for one
// that is not built in if it says vendor and memory.
func (d *decoder) model(dst *Model, n *yaml.Node, path, name, vendor string, mem int64) bool {
	m, known := modelByName(name)
	switch {
	case name == "":
		d.fail(n, path+".model", "is missing; known: %s", joined(ModelNames()))
		return false
	case !known && (vendor == "" || mem == 0):
		d.fail(n, path+".model", "unknown model %q%s, or give its vendor and memMiB", name, didYouMean(name, ModelNames()))
		return false
	case !known:
		m = Model{Short: name, Product: name, Cards: 8, Layout: twoSockets}
	}
	if vendor != "" {
		if !slices.Contains(device.Vendors(), device.Vendor(vendor)) {
			var all []string
			for _, v := range device.Vendors() {
				all = append(all, string(v))
			}
			d.fail(n, path+".vendor", "unknown vendor %q%s", vendor, didYouMean(vendor, all))
			return false
		}
		m.Vendor = device.Vendor(vendor)
		m.prefix = uuidPrefix(m.Vendor)
	}
	if mem != 0 {
		m.MemMiB = mem
	}
	*dst = m
	return true
}

func (d *decoder) checkCards(c *Cards, n *yaml.Node, path string) {
	if c.MIG.Any() && (c.Model.Vendor != device.NVIDIA || mig.Catalogue(c.Model.Product, c.Model.MemMiB) == nil) {
		d.fail(n, path+".mig", "no MIG profiles are known for %s with %d MiB", c.Model.Product, c.Model.MemMiB)
	}
	for _, i := range c.MIG.Indices {
		if i >= c.Count {
			d.fail(n, path+".mig", "there is no card %d: the node has %d, counted from 0", i, c.Count)
		}
	}
	for _, s := range c.Health {
		if s.Card >= c.Count {
			d.fail(n, path+".health", "there is no card %d: the node has %d, counted from 0", s.Card, c.Count)
		}
	}
}

// mig reads all, none or a list of cards.
func (d *decoder) mig(dst *MIG) field {
	return func(n *yaml.Node, path string) {
		switch {
		case n.Kind == yaml.SequenceNode:
			d.indices(&dst.Indices)(n, path)
		case n.Kind == yaml.ScalarNode && n.Value == "all":
			dst.All = true
		case n.Kind == yaml.ScalarNode && n.Value == "none":
		default:
			d.fail(n, path, "must be all, none or a list of card numbers, is %s", kindOf(n))
		}
	}
}

func (d *decoder) sick(dst *[]Sick, n *yaml.Node, path string) {
	before := len(d.problems)
	card := int64(-1)
	var code, since string
	d.mapping(n, path, map[string]field{"card": d.integer(&card, 0, device.MaxCards-1), "code": d.text(&code), "since": d.text(&since)})
	if len(d.problems) > before {
		return
	}
	if card < 0 {
		d.fail(n, path+".card", "is missing: the number of the card, counted from 0")
	}
	if !healthCode.MatchString(code) {
		d.fail(n, path+".code", "%q is no health code: small letters, digits and dashes, such as xid-79", code)
	}
	if _, err := time.Parse(time.RFC3339, since); since != "" && err != nil {
		d.fail(n, path+".since", "%q is no time such as 2026-01-02T15:04:05Z", since)
	}
	*dst = append(*dst, Sick{Card: int(card), Event: device.HealthEvent{Code: code, Since: since}})
}

func (d *decoder) layout(n *yaml.Node, path string) *Layout {
	sockets, numa, switches := int64(2), int64(1), int64(1)
	d.mapping(n, path, map[string]field{
		"sockets":         d.integer(&sockets, 1, 8),
		"numaPerSocket":   d.integer(&numa, 1, 8),
		"switchesPerNuma": d.integer(&switches, 1, 16),
	})
	return &Layout{Sockets: int(sockets), NUMAPerSocket: int(numa), SwitchesPerNUMA: int(switches)}
}

func (d *decoder) nics(n *yaml.Node, path string) NICs {
	out := NICs{Gbps: 200}
	var count, gbps int64 = 0, 200
	d.mapping(n, path, map[string]field{
		"count": d.integer(&count, 1, 64),
		"gbps":  d.integer(&gbps, 1, 10_000),
		"down":  d.indices(&out.Down),
	})
	out.Count, out.Gbps = int(count), int(gbps)
	for _, i := range out.Down {
		if i >= out.Count {
			d.fail(n, path+".down", "there is no NIC %d: the node has %d, counted from 0", i, out.Count)
		}
	}
	return out
}
