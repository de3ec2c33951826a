// Package fleet describes the simulated nodes of a sandbox: a small YAML file
// is read into a Fleet, and each of its nodes is turned into the inventory
// that an agent would publish and into the Node object that a kubelet would
// register.
//
// It is pure: text and values in, values out, the same answer each time. UUIDs
// and addresses are made from the node's name and the card's index. It never
// decides how many resources a node offers: device.Inventory.Capacity does.
//
// Words: an entry is one item of the file's list; it stands for one node, or
// for count nodes with numbered names. A layout is how many sockets, NUMA
// nodes and PCIe switches the cards of a node hang on.
package fleet
