//go:build linux

package inventory

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]address{
		"0000:17:00.0":     "0000:17:00.0",
		"00000000:3B:1F.7": "0000:3b:1f.7",
		" 10000:01:00.0\n": "10000:01:00.0",
		"0:1:2.3":          "0000:01:02.3",
		"FFFFFFFF:00:00.0": "ffffffff:00:00.0",
	} {
		if got, err := parseAddress(text); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "17:00.0", "0000:17:00", "0000:17:20.0", "0000:17:00.8", "0000:100:00.0", "0000:17:00.0:0", "x:17:00.0", "-1:17:00.0", "100000000:17:00.0", "0000:17:0_0.0"} {
		if a, err := parseAddress(bad); err == nil {
			t.Errorf("%q is %q", bad, a)
		}
	}
}

// FuzzText gives the decoders of text the same input.
func FuzzText(f *testing.F) {
	f.Add("00000000:3B:00.0")
	f.Add("0000:17:1f.7")
	f.Add(`36 35 98:0 /mnt1 /mnt/a\040b rw,noatime master:1 - ext3 /dev/root rw,errors=continue`)
	f.Add("sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/nvme/nvme0")
	f.Fuzz(func(t *testing.T, s string) {
		if a, err := parseAddress(s); err == nil {
			if again, err := parseAddress(string(a)); err != nil || again != a {
				t.Errorf("%q is %q, which is %q, %v", s, a, again, err)
			}
		}
		if m, err := parseMount(s); err == nil && (m.kind == "" || len(m.options) == 0) {
			t.Errorf("%q: %+v", s, m)
		}
		if c, ok := chainOf(s); ok && (c.host == "" || c.device == "") {
			t.Errorf("%q: %+v", s, c)
		}
	})
}

func TestChainOf(t *testing.T) {
	for name, want := range map[string]chain{
		"sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda": {host: "pci0000:00", device: "0000:00:02.0"},
		"sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0/nvme/nvme0": {
			host: "pci0000:15", bridges: []address{"0000:15:01.0", "0000:16:00.0", "0000:17:00.0"}, device: "0000:18:00.0"},
		"sys/devices/pci0000:15/0000:15:00.5/pci10000:00/10000:00:02.0/10000:01:00.0": {
			host: "pci10000:00", bridges: []address{"10000:00:02.0"}, device: "10000:01:00.0"},
	} {
		got, ok := chainOf(name)
		if !ok || got.host != want.host || got.device != want.device || !slices.Equal(got.bridges, want.bridges) {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
	for _, none := range []string{"", "sys/devices/virtual/block/dm-0", "sys/devices/pci0000:00", "sys/devices/0000:00:02.0", "sys/devices/pcie:00/0000:00:02.0", "sys/devices/platform/pci/x"} {
		if c, ok := chainOf(none); ok {
			t.Errorf("%s: %+v", none, c)
		}
	}
}

// TestConfig reads made-up configuration spaces.
func TestConfig(t *testing.T) {
	for port, want := range map[string]PortType{"root": PortRoot, "up": PortUpstream, "down": PortDownstream, "endpoint": PortOther, "bridge": PortOther} {
		c := configSpace(port, "")
		if got := configPort(c); got != want {
			t.Errorf("%s: %s", port, got)
		}
		// What those read who are not root.
		if got := configPort(c[:64]); got != PortUnknown {
			t.Errorf("%s in 64 bytes: %s", port, got)
		}
	}
	for acs, want := range map[string]Redirect{"": RedirectOff, "0x0": RedirectOff, "0x13": RedirectOff, "0x4": RedirectOn, "0x8": RedirectOn, "0x20": RedirectOn, "0x1d": RedirectOn} {
		c := configSpace("down", acs)
		if got := configRedirect(c); got != want {
			t.Errorf("control %q: %s", acs, got)
		}
		for _, n := range []int{0, 64, 256} {
			if got := configRedirect(c[:n]); got != RedirectUnknown {
				t.Errorf("control %q in %d bytes: %s", acs, n, got)
			}
		}
	}
}

// TestConfigBroken: lists that lead nowhere or in circles end.
func TestConfigBroken(t *testing.T) {
	gone := make([]byte, 4096)
	for i := range gone {
		gone[i] = 0xff
	}
	circle := configSpace("root", "0x4")
	circle[0x41] = 0x40                                              // points to itself
	copy(circle[0x100:], []byte{0x01, 0x00, 0x01, 0x10, 0, 0, 0, 0}) // 0x100 again
	outside := configSpace("root", "0x4")
	outside[configCapPointer] = 0x04
	copy(outside[0x100:], []byte{0x01, 0x00, 0xf1, 0xff, 0, 0, 0, 0}) // 0xfff
	for name, c := range map[string][]byte{"gone": gone, "circle": circle, "outside": outside} {
		if p, r := configPort(c), configRedirect(c); p != PortUnknown || r != RedirectUnknown {
			t.Errorf("%s: %s, %s", name, p, r)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add(configSpace("up", "0x1d"))
	f.Add(configSpace("root", "")[:64])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, c []byte) {
		if p := configPort(c); p == "" {
			t.Error("no port")
		}
		if r := configRedirect(c); r == "" {
			t.Error("no redirect")
		}
	})
}

func TestParseMount(t *testing.T) {
	m, err := parseMount(`36 35 98:7 /mnt1 /mnt/a\040b\134c rw,noatime master:1 shared:2 - ext4 /dev/r\011x rw,data=ordered`)
	if err != nil || m.major != 98 || m.minor != 7 || m.point != `/mnt/a b\c` || m.kind != "ext4" || m.source != "/dev/r\tx" ||
		!slices.Equal(m.options, []string{"rw", "noatime", "rw", "data=ordered"}) {
		t.Errorf("%+v, %v", m, err)
	}
	for _, bad := range []string{"", "a - b c", "1 2 3:x / / rw - ext4 a", "1 2 3 / / rw - ext4 a", "1 2 3:4 / / rw ext4 a", "1 2 3:4 / / rw - ext4"} {
		if m, err := parseMount(bad); err == nil {
			t.Errorf("%q: %+v", bad, m)
		}
	}
}

// TestUnescape: every text comes back that the kernel's escapes make of it.
func TestUnescape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		var escaped string
		for _, c := range []byte(s) {
			switch c {
			case ' ', '\t', '\n', '\\':
				escaped += fmt.Sprintf(`\%03o`, c)
			default:
				escaped += string([]byte{c})
			}
		}
		if got := unescape(escaped); got != s {
			t.Fatalf("%q became %q", s, got)
		}
	})
	for _, s := range []string{`a\`, `a\04`, `a\9x1`, `\400`} {
		if got := unescape(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}
