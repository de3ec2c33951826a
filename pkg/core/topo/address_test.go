package topo_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/topo"
)

func TestOneAddressHasManySpellings(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"the kernel's form":                  {"0000:1b:00.0", "0000:1b:00.0"},
		"the driver library's form":          {"00000000:1B:00.0", "0000:1b:00.0"},
		"its older form":                     {"0000:1B:00.0", "0000:1b:00.0"},
		"lspci's form without domain":        {"1b:00.0", "0000:1b:00.0"},
		"a second domain, eight digits":      {"00000001:00:00.0", "0001:00:00.0"},
		"a domain of five digits":            {"10000:02:00.0", "10000:02:00.0"},
		"the same from the driver":           {"00010000:02:00.0", "10000:02:00.0"},
		"a domain of eight digits":           {"abcdef01:02:1f.7", "abcdef01:02:1f.7"},
		"five digits of which one is a zero": {"00001:02:00.0", "0001:02:00.0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, err := topo.ParseAddress(tt.text)
			if err != nil || a.String() != tt.want {
				t.Errorf("%q is %v, %v; want %s", tt.text, a, err, tt.want)
			}
		})
	}
}

func TestWhatIsNoAddress(t *testing.T) {
	for _, s := range []string{
		"", "0000:1b:00", "0000:1b:00.8", "0000:1b:20.0", "000:1b:00.0", "000000000:1b:00.0", "0000:1b:00.00",
		"0000:1b:0.0", "0000:1bb:00.0", "fffffff:ffff:ff", "+000:1b:00.0", "0x00:1b:00.0", "0000:1b:00.0 ", "0_00:1b:00.0",
		"0000:1b:00.0.0", "0000:0000:1b:00.0", "PCI:27:0:0", "0000:\x11b:00.0", "0000:1B:00.-", "virtio0",
	} {
		if a, err := topo.ParseAddress(s); err == nil {
			t.Errorf("%q was read as %v", s, a)
		}
	}
}

func TestAddressesRoundTripAndKeepTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) topo.Address {
			return topo.Address{Domain: rapid.Uint32().Draw(t, name), Bus: rapid.Uint8().Draw(t, "bus"),
				Device: rapid.Uint8Range(0, 0x1f).Draw(t, "device"), Function: rapid.Uint8Range(0, 7).Draw(t, "function")}
		}
		a, b := draw("a"), draw("b")
		for _, format := range []string{"%04x:%02x:%02x.%x", "%08X:%02X:%02X.%X", "%05x:%02X:%02x.%x"} {
			got, err := topo.ParseAddress(fmt.Sprintf(format, a.Domain, a.Bus, a.Device, a.Function))
			if err != nil || got != a {
				t.Fatalf(format+" became %v, %v", a.Domain, a.Bus, a.Device, a.Function, got, err)
			}
		}
		if (a.Compare(b) == 0) != (a == b) || a.Compare(b) != -b.Compare(a) {
			t.Fatalf("%v against %v: %d and %d", a, b, a.Compare(b), b.Compare(a))
		}
	})
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"0000:3b:00.0", "00010000:02:00.0", "3b:00.1", "fffffff:ffff:ff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := topo.ParseAddress(s)
		if err != nil {
			return
		}
		if b, err := topo.ParseAddress(a.String()); err != nil || a != b {
			t.Errorf("%q is %v, which is read as %v, %v", s, a, b, err)
		}
	})
}
