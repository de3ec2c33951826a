// Package topo says how near the devices of one host are to each other: PCI
// addresses, the tier of a card and a NIC, what the connection of two cards is
// worth, and what a set of cards is worth as a group.
//
// Words: a Position is what is known of where a device sits; a Tier is the
// nearest thing that two devices share (a PCIe switch, a NUMA node, a socket,
// or nothing but the host); the worth of a pair is a small number, larger for
// a faster path; the ring of a set is the worst worth that a ring through all
// its cards cannot avoid.
//
// A fact that nobody knows stays unknown: it never makes two devices nearer
// than a known fact would, and it is never a refusal.
//
// It reads no files and chooses nothing: parsers fill a device.Inventory, and
// pkg/core/place decides.
package topo
