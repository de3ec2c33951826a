package place

import (
	"slices"
	"sort"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/core/topo"
)

// View is one node with what is left of its cards. It is made for one
// question and is not safe for concurrent use.
type View struct {
	Node *cluster.Node
	cfg  config.Config
	// cards is in the order of their index.
	cards []card
	// host and nics are worked out when they are first asked.
	host    *topo.Host
	nics    []*device.NIC
	charted bool
	wired   bool
	// guessed has by uid what pods are taken to hold of which nobody knows.
	guessed map[string][]cluster.CardUse
}

// card is one card and what all pods together hold of it.
type card struct {
	dev      *device.Card
	use      cluster.CardUse
	shareMiB int64 // what it offers to shares, in MiB
	profiles []mig.Profile
	cut      bool // profiles have been looked up
}

// NewView applies all holds of the node to its cards.
func NewView(n *cluster.Node, c config.Config) *View {
	v := &View{Node: n, cfg: c}
	if n.Inventory == nil {
		return v
	}
	v.cards = make([]card, len(n.Inventory.Cards))
	for i := range n.Inventory.Cards {
		d := &n.Inventory.Cards[i]
		v.cards[i] = card{dev: d, use: cluster.CardUse{Card: d.UUID}, shareMiB: d.ShareMiB(n.Inventory.Unit)}
	}
	byIndex := func(a, b card) int { return a.dev.Index - b.dev.Index }
	if !slices.IsSortedFunc(v.cards, byIndex) {
		slices.SortFunc(v.cards, byIndex)
	}
	unplaced := 0
	for i := range n.Holds {
		if n.Holds[i].Unplaced != nil {
			unplaced++
		}
		v.Add(n.Holds[i].Cards)
	}
	if unplaced > 0 {
		v.addUnplaced()
	}
	return v
}

// Add takes what one pod holds. Cards that the node no longer has are passed
// over: they cannot be given to anybody.
func (v *View) Add(uses []cluster.CardUse) {
	for _, u := range uses {
		for i := range v.cards {
			if v.cards[i].dev.UUID == u.Card {
				id := v.cards[i].use.Card
				v.cards[i].use = v.cards[i].use.Plus(u)
				v.cards[i].use.Card = id
				break
			}
		}
	}
}

// addUnplaced lets pods hold cards although nobody knows which: the amount
// that they ask must not be given out twice, and the cards that they were
// most likely given are those that this package would have chosen. What fits
// nowhere is held as far as it goes, ask by ask and card by card.
func (v *View) addUnplaced() {
	var pods []*cluster.Hold
	for i := range v.Node.Holds {
		if v.Node.Holds[i].Unplaced != nil {
			pods = append(pods, &v.Node.Holds[i])
		}
	}
	sort.Slice(pods, func(i, j int) bool { return pods[i].UID < pods[j].UID })
	for _, h := range pods {
		s := newSearch(v, h.Unplaced)
		if s.run() == found {
			v.guess(h.UID, s.offer().Uses)
			continue
		}
		for _, a := range h.Unplaced.Asks {
			one := *h.Unplaced
			for n := a.Count; n > 0; n-- {
				b := a
				b.Count = 1
				one.Asks = []request.Ask{b}
				if s := newSearch(v, &one); s.run() == found {
					v.guess(h.UID, s.offer().Uses)
				}
			}
		}
	}
}

func (v *View) guess(uid string, uses []cluster.CardUse) {
	if v.guessed == nil {
		v.guessed = map[string][]cluster.CardUse{}
	}
	v.guessed[uid] = append(v.guessed[uid], uses...)
	v.Add(uses)
}

// chart measures the node's cards. It returns nil for an inventory with more
// cards than one may have; cards are then chosen one by one, without regard
// to each other.
func (v *View) chart() *topo.Host {
	if !v.charted {
		devs := make([]*device.Card, len(v.cards))
		for i := range v.cards {
			devs[i] = v.cards[i].dev
		}
		v.host, v.charted = topo.New(devs, v.Node.Inventory.Links), true
	}
	return v.host
}

// fabric lists the NICs for RDMA.
func (v *View) fabric() []*device.NIC {
	if !v.wired {
		v.nics, v.wired = topo.Fabric(v.Node.Inventory.NICs), true
	}
	return v.nics
}

// Holders names the pods that hold some of the card, sorted.
func (v *View) Holders(uuid string) []string {
	var out []string
	for _, h := range v.Node.Holds {
		for _, u := range h.Cards {
			if u.Card == uuid {
				out = append(out, h.Pod)
				break
			}
		}
	}
	sort.Strings(out)
	return out
}

// Use is what all pods together hold of a card.
func (v *View) Use(uuid string) cluster.CardUse {
	for i := range v.cards {
		if v.cards[i].dev.UUID == uuid {
			return v.cards[i].use
		}
	}
	return cluster.CardUse{}
}

// profiles are the MIG profiles by which the card can be cut, nil if it
// cannot be. They are looked up when slices are first asked, since few are.
func (v *View) profiles(c *card) []mig.Profile {
	if !c.cut {
		c.profiles, c.cut = v.Node.Inventory.ProfilesOf(c.dev), true
	}
	return c.profiles
}
