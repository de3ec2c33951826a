package topo

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Address names one PCI function of a host. The domain is part of it: two
// devices with the same bus and device number in two domains are different.
type Address struct {
	Domain                uint32
	Bus, Device, Function uint8
}

// The limits of the bus: five bits of device, three of function.
const (
	maxDevice   = 0x1f
	maxFunction = 7
)

// ParseAddress reads an address in any of its spellings: the kernel's
// (0000:3b:00.0, with more digits of domain where there are more, as behind
// Intel's VMD: 10000:02:00.0), the driver library's (00000000:3B:00.0), its
// older four-digit form, and lspci's without a domain (3b:00.0). Letters may
// be upper or lower case. fffffff:ffff:ff, NCCL's name for a switch that a
// virtual machine cannot see, is no address.
func ParseAddress(s string) (Address, error) {
	bad := func() (Address, error) {
		return Address{}, fmt.Errorf("PCI address %q: want the form 0000:3b:00.0", s)
	}
	rest, function, ok := strings.Cut(s, ".")
	parts := strings.Split(rest, ":")
	if !ok || len(parts) < 2 || len(parts) > 3 {
		return bad()
	}
	domain := "0000"
	if len(parts) == 3 {
		domain, parts = parts[0], parts[1:]
	}
	d, ok1 := hex(domain, 4, 8)
	b, ok2 := hex(parts[0], 2, 2)
	v, ok3 := hex(parts[1], 2, 2)
	f, ok4 := hex(function, 1, 1)
	if !ok1 || !ok2 || !ok3 || !ok4 || v > maxDevice || f > maxFunction {
		return bad()
	}
	return Address{Domain: d, Bus: uint8(b), Device: uint8(v), Function: uint8(f)}, nil
}

// hex reads least to most hexadecimal digits and nothing else: ParseUint alone
// would take a sign or underscores.
func hex(s string, least, most int) (uint32, bool) {
	if len(s) < least || len(s) > most {
		return 0, false
	}
	for i := range len(s) {
		if c := s[i] | 0x20; (c < '0' || c > '9') && (c < 'a' || c > 'f') || s[i] < '0' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(s, 16, 32)
	return uint32(n), err == nil
}

// String is the kernel's form: lower case, at least four digits of domain.
func (a Address) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%d", a.Domain, a.Bus, a.Device, a.Function)
}

// Compare orders addresses as the kernel lists them.
func (a Address) Compare(b Address) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Bus, b.Bus),
		cmp.Compare(a.Device, b.Device), cmp.Compare(a.Function, b.Function))
}

// compareText orders addresses as published: well-formed ones first, as the
// kernel does, then any other text.
func compareText(s, t string) int {
	a, errA := ParseAddress(s)
	b, errB := ParseAddress(t)
	switch {
	case errA == nil && errB == nil:
		return cmp.Or(a.Compare(b), cmp.Compare(s, t))
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return cmp.Compare(s, t)
}
