// Package device has the facts about the hardware of one node, and the two
// records that name cards: the inventory that a node's agent publishes, and
// the allocation that the scheduler writes with a binding. Both are versioned
// compact JSON in annotations; their types and codecs live here and nowhere
// else, so that the sandbox, the agent, the scheduler and the tools agree.
//
// Decoding treats its input as hostile: sizes and ranges are checked, and
// what cannot be trusted is an error, never a guess.
//
// Words: a card is one GPU, PPU or ASIC; a NIC is an RDMA capable network
// device; the unit is what one gpu-memory counts on that node.
package device
