package device

import (
	"encoding/json"
	"fmt"
	"sort"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/mig"
)

// Vendor is who made a card.
type Vendor string

// The vendors that an inventory may name.
const (
	NVIDIA Vendor = "nvidia"
	PPU    Vendor = "ppu"
	AMD    Vendor = "amd"
	NETINT Vendor = "netint"
)

// Vendors lists every Vendor.
func Vendors() []Vendor { return []Vendor{NVIDIA, PPU, AMD, NETINT} }

// Shareable tells whether cards of the vendor can be divided in time. AMD
// cards are given whole only; NETINT's are no GPUs.
func (v Vendor) Shareable() bool { return v == NVIDIA || v == PPU }

// IsGPU tells whether a card of the vendor answers a request for a whole
// card of any vendor.
func (v Vendor) IsGPU() bool { return v != NETINT }

// InventoryVersion is the newest version that this build reads and the one
// that it writes. A node with a newer one is unknown, not empty.
const InventoryVersion = 1

// MaxInventoryBytes bounds the annotation (API objects are limited to about
// 1 MiB of annotations; a 16-card host needs about 6 KiB).
const MaxInventoryBytes = 64 << 10

// MaxCards bounds the cards of one node.
const MaxCards = 64

// Inventory is what an agent publishes about its node. Absent keys are facts
// that nobody knows: a NUMA node of -1 is absent, never 0.
type Inventory struct {
	V        int                      `json:"v"`
	Unit     config.Unit              `json:"unit"`
	Agent    string                   `json:"agent,omitempty"` // version of the writer
	Boot     string                   `json:"boot,omitempty"`  // the kernel's boot id
	Cards    []Card                   `json:"cards"`
	Profiles map[string][]mig.Profile `json:"profiles,omitempty"` // by model, from the driver
	Links    []Link                   `json:"links,omitempty"`
	NICs     []NIC                    `json:"nics,omitempty"`
}

// Card is one accelerator.
type Card struct {
	UUID   string        `json:"uuid"`
	Index  int           `json:"index"`
	Minor  *int          `json:"minor,omitempty"`
	Model  string        `json:"model"`
	Vendor Vendor        `json:"vendor"`
	MemMiB int64         `json:"memMiB"`
	PCI    string        `json:"pci,omitempty"`    // kernel form 0000:3b:00.0
	Switch string        `json:"switch,omitempty"` // the nearest PCIe switch
	NUMA   *int          `json:"numa,omitempty"`
	Socket *int          `json:"socket,omitempty"`
	MIG    *MIGMode      `json:"mig,omitempty"` // absent: the card has no MIG
	Health []HealthEvent `json:"health,omitempty"`
}

// MIGMode is the current and the pending mode bit of a card.
type MIGMode struct {
	Cur  bool `json:"cur"`
	Pend bool `json:"pend"`
}

// HealthEvent says that a card must not be given out, and why.
type HealthEvent struct {
	Code  string `json:"code"`            // "xid-79", "row-remap-failure", "lost"
	Since string `json:"since,omitempty"` // RFC 3339
}

// Link joins the cards with indices A and B: N connections of a kind
// ("nvlink", "icn"). Its JSON form is [a,b,kind,n].
type Link struct {
	A, B int
	Kind string
	N    int
}

// NIC is an RDMA capable device.
type NIC struct {
	Name   string `json:"name"` // "mlx5_0"
	GUID   string `json:"guid,omitempty"`
	PCI    string `json:"pci,omitempty"`
	Switch string `json:"switch,omitempty"`
	NUMA   *int   `json:"numa,omitempty"`
	Socket *int   `json:"socket,omitempty"`
	Ports  []Port `json:"ports,omitempty"`
}

// Port is one port of a NIC.
type Port struct {
	Num   int    `json:"num"`
	State string `json:"state"`          // "ACTIVE", "DOWN", …
	Layer string `json:"layer"`          // "InfiniBand", "Ethernet"
	Gbps  int    `json:"gbps,omitempty"` // data rate
}

// MarshalJSON writes the compact array form.
func (l Link) MarshalJSON() ([]byte, error) { return json.Marshal([]any{l.A, l.B, l.Kind, l.N}) }

// UnmarshalJSON reads the compact array form.
func (l *Link) UnmarshalJSON(b []byte) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	if len(raw) != 4 {
		return fmt.Errorf("link: want [card, card, kind, count], got %d elements", len(raw))
	}
	for i, dst := range []any{&l.A, &l.B, &l.Kind, &l.N} {
		if err := json.Unmarshal(raw[i], dst); err != nil {
			return fmt.Errorf("link: element %d: %w", i, err)
		}
	}
	return nil
}

// InMIGMode tells whether the card is cut by MIG now.
func (c *Card) InMIGMode() bool { return c.MIG != nil && c.MIG.Cur }

// Healthy tells whether the card may be given out.
func (c *Card) Healthy() bool { return len(c.Health) == 0 }

// ShareMiB is how much memory the card offers to time-divided shares: whole
// units only, so a card of 81,559 MiB offers 79 GiB in a GiB cluster.
func (c *Card) ShareMiB(u config.Unit) int64 { return c.MemMiB / u.MiB() * u.MiB() }

// ProfilesOf returns the MIG profiles of a card: the driver's where the
// inventory has them, else the catalogue's. It is nil if the card has none.
func (inv *Inventory) ProfilesOf(c *Card) []mig.Profile {
	if p, ok := inv.Profiles[c.Model]; ok {
		return p
	}
	if c.Vendor != NVIDIA {
		return nil
	}
	return mig.Catalogue(c.Model, c.MemMiB)
}

// Card finds a card by UUID, nil if there is none.
func (inv *Inventory) Card(uuid string) *Card {
	for i := range inv.Cards {
		if inv.Cards[i].UUID == uuid {
			return &inv.Cards[i]
		}
	}
	return nil
}

// Usable tells whether the NIC has a port in service. A NIC whose ports are
// not known is taken as usable.
func (n *NIC) Usable() bool {
	if len(n.Ports) == 0 {
		return true
	}
	for _, p := range n.Ports {
		if p.State == "ACTIVE" {
			return true
		}
	}
	return false
}

// RDMATokens is the capacity of the rdma switch on a node with a usable NIC:
// enough that kubelet's sum check never refuses a pod.
const RDMATokens = 1000

// Capacity returns what a node with this inventory reports to kubelet, by
// resource name. Absent resources are those that the node does not offer;
// kubelet drops requests for them, so the scheduler asks for a key above 0.
// Health does not lower it: kubelet would reject a well pod over a sick card.
func (inv *Inventory) Capacity(c config.Config) map[string]int64 {
	out := map[string]int64{}
	for i := range inv.Cards {
		card := &inv.Cards[i]
		if !card.Vendor.IsGPU() {
			continue
		}
		if card.InMIGMode() {
			out[c.GPUSlice()] += mig.ComputeSlices
			out[c.GPUMemory()] += card.MemMiB / inv.Unit.MiB()
			continue
		}
		out[c.GPU()]++
		if card.Vendor == NVIDIA {
			out[config.NvidiaGPU]++
		}
		if card.Vendor.Shareable() {
			out[c.GPUCore()] += 100
			out[c.GPUMemory()] += card.MemMiB / inv.Unit.MiB()
		}
		if card.Vendor == PPU && len(inv.Profiles[card.Model]) > 0 {
			out[c.GPUSlice()] += mig.ComputeSlices
		}
	}
	for i := range inv.NICs {
		if inv.NICs[i].Usable() {
			out[c.RDMA()] = RDMATokens
			break
		}
	}
	return out
}

// EncodeInventory writes the annotation. It refuses what DecodeInventory
// would not read back.
func EncodeInventory(inv *Inventory) (string, error) {
	c := *inv
	c.V = InventoryVersion
	b, err := json.Marshal(&c)
	if err != nil {
		return "", fmt.Errorf("inventory: %w", err)
	}
	if len(b) > MaxInventoryBytes {
		return "", fmt.Errorf("inventory: %d bytes, more than the %d that an annotation may have", len(b), MaxInventoryBytes)
	}
	return string(b), c.check()
}

// DecodeInventory reads the annotation. Unknown fields are left alone, since
// a newer agent of the same version may add facts; anything else that it does
// not understand is an error, and the node is then unknown.
func DecodeInventory(s string) (*Inventory, error) {
	if len(s) > MaxInventoryBytes {
		return nil, fmt.Errorf("inventory: %d bytes, more than the %d allowed", len(s), MaxInventoryBytes)
	}
	var head struct {
		V *int `json:"v"`
	}
	if err := json.Unmarshal([]byte(s), &head); err != nil {
		return nil, fmt.Errorf("inventory: not JSON: %w", err)
	}
	if head.V == nil || *head.V < 1 {
		return nil, fmt.Errorf("inventory: no version")
	}
	if *head.V > InventoryVersion {
		return nil, fmt.Errorf("inventory: version %d is newer than %d, the newest known here", *head.V, InventoryVersion)
	}
	var inv Inventory
	if err := json.Unmarshal([]byte(s), &inv); err != nil {
		return nil, fmt.Errorf("inventory: %w", err)
	}
	if err := inv.check(); err != nil {
		return nil, err
	}
	sort.Slice(inv.Cards, func(i, j int) bool { return inv.Cards[i].Index < inv.Cards[j].Index })
	return &inv, nil
}

func (inv *Inventory) check() error {
	if inv.Unit != config.GiB && inv.Unit != config.MiB {
		return fmt.Errorf("inventory: unit %q: must be GiB or MiB", inv.Unit)
	}
	if len(inv.Cards) > MaxCards {
		return fmt.Errorf("inventory: %d cards, more than %d", len(inv.Cards), MaxCards)
	}
	uuids, indices := map[string]bool{}, map[int]bool{}
	for i := range inv.Cards {
		c := &inv.Cards[i]
		if c.UUID == "" || uuids[c.UUID] {
			return fmt.Errorf("inventory: card %d: UUID %q is empty or used twice", i, c.UUID)
		}
		if c.Index < 0 || indices[c.Index] {
			return fmt.Errorf("inventory: card %s: index %d is negative or used twice", c.UUID, c.Index)
		}
		if c.MemMiB < 0 || c.MemMiB > 16<<20 {
			return fmt.Errorf("inventory: card %s: memory of %d MiB", c.UUID, c.MemMiB)
		}
		if !knownVendor(c.Vendor) {
			return fmt.Errorf("inventory: card %s: vendor %q is not known", c.UUID, c.Vendor)
		}
		uuids[c.UUID], indices[c.Index] = true, true
	}
	for _, l := range inv.Links {
		if !indices[l.A] || !indices[l.B] || l.A == l.B || l.N < 0 {
			return fmt.Errorf("inventory: link %d–%d: no such pair of cards", l.A, l.B)
		}
	}
	return nil
}

func knownVendor(v Vendor) bool {
	for _, k := range Vendors() {
		if v == k {
			return true
		}
	}
	return false
}
