package inventory

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// randomPlace draws a way of bridges out of few addresses, so that two of them
// often share some, with all kinds of facts.
func randomPlace(t *rapid.T, name string) place {
	p := place{
		chain: chain{host: rapid.SampledFrom([]string{"pci0000:00", "pci0000:40"}).Draw(t, name+" host"), device: address(name)},
		node:  rapid.IntRange(-1, 1).Draw(t, name+" node"),
	}
	depth := rapid.IntRange(0, 5).Draw(t, name+" depth")
	for i := range depth {
		b := Bridge{
			Address:  fmt.Sprintf("%d%d", i, rapid.IntRange(0, 1).Draw(t, name+" bridge")),
			Port:     rapid.SampledFrom([]PortType{PortUnknown, PortRoot, PortUpstream, PortDownstream, PortOther}).Draw(t, name+" port"),
			Redirect: rapid.SampledFrom([]Redirect{RedirectUnknown, RedirectOn, RedirectOff}).Draw(t, name+" redirect"),
			express:  rapid.Bool().Draw(t, name+" express"),
			bridge:   rapid.Bool().Draw(t, name+" is bridge"),
		}
		p.bridges = append(p.bridges, b)
	}
	return p
}

// switchPlaces are two places below one switch, all facts known.
func switchPlaces() (place, place) {
	b := func(a string, p PortType) Bridge {
		return Bridge{Address: a, Port: p, Redirect: RedirectOff, express: true, bridge: true}
	}
	shared := []Bridge{b("r", PortRoot), b("u", PortUpstream)}
	x := place{chain: chain{host: "pci0000:00"}, bridges: append(slices.Clone(shared), b("d0", PortDownstream))}
	y := place{chain: chain{host: "pci0000:00"}, bridges: append(slices.Clone(shared), b("d1", PortDownstream))}
	return x, y
}

// TestRelateProves takes every fact away, one at a time: a switch counts as
// seen only while all hold.
func TestRelateProves(t *testing.T) {
	x, y := switchPlaces()
	if r := relate(x, y); !r.proven || r.level != LevelPIX || r.redirect != RedirectOff {
		t.Fatalf("a switch is not seen: %+v", r)
	}
	both := func(i int, change func(*Bridge)) func(x, y *place) {
		return func(x, y *place) { change(&x.bridges[i]); change(&y.bridges[i]) }
	}
	noExpress := func(b *Bridge) { b.express = false }
	noBridge := func(b *Bridge) { b.bridge = false }
	for name, change := range map[string]func(x, y *place){
		"root not express":      both(0, noExpress),
		"up not express":        both(1, noExpress),
		"down not express":      func(_, y *place) { noExpress(&y.bridges[2]) },
		"other down no express": func(x, _ *place) { noExpress(&x.bridges[2]) },
		"root no bridge":        both(0, noBridge),
		"up no bridge":          both(1, noBridge),
		"down no bridge":        func(x, _ *place) { noBridge(&x.bridges[2]) },
		"not a root port":       both(0, func(b *Bridge) { b.Port = PortUpstream }),
		"not an upstream port":  both(1, func(b *Bridge) { b.Port = PortOther }),
		"not a downstream port": func(_, y *place) { y.bridges[2].Port = PortUpstream },
		"not a port below":      func(x, _ *place) { x.bridges[2].Port = PortOther },
		"other root bus":        func(x, _ *place) { x.chain.host = "pci0000:40" },
		"other root port":       func(x, _ *place) { x.bridges[0].Address = "r2" },
		"other switch":          func(x, _ *place) { x.bridges[1].Address = "u2" },
		"on the switch's bus":   func(x, _ *place) { x.bridges = x.bridges[:2] },
		"no bridge":             func(x, _ *place) { x.bridges = nil },
	} {
		x, y := switchPlaces()
		change(&x, &y)
		if r := relate(x, y); r.proven || r.reason == "" || r.level == LevelPIX || r.level == LevelPXB {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestRelateIsSound holds what any two places must not show.
func TestRelateIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := randomPlace(t, "x"), randomPlace(t, "y")
		r, back := relate(x, y), relate(y, x)
		if r.level != back.level || r.proven != back.proven || !slices.Equal(r.shared, back.shared) || r.redirect != back.redirect {
			t.Fatalf("%+v one way, %+v the other", r, back)
		}
		if r.reason == "" {
			t.Fatalf("no reason: %+v", r)
		}
		if near := r.level == LevelPIX || r.level == LevelPXB; near != r.proven {
			t.Fatalf("level %s and proven %v", r.level, r.proven)
		}
		if r.proven && (len(r.shared) < 2 || len(x.bridges) <= len(r.shared) || len(y.bridges) <= len(r.shared)) {
			t.Fatalf("no room for a switch: %+v of %+v and %+v", r, x, y)
		}
		if (x.node == Unknown || y.node == Unknown) && (r.level == LevelNode || r.level == LevelSys) {
			t.Fatalf("level %s of unknown nodes", r.level)
		}
	})
}

// TestPairIsNearOnlyIfTrusted: no list of signs, no redirect, or not near.
func TestPairIsNearOnlyIfTrusted(t *testing.T) {
	d := Directory{Path: "/d", Controllers: []Controller{{Name: "nvme0"}}}
	for _, c := range []struct {
		name      string
		untrusted []string
		redirect  Redirect
		near      bool
	}{
		{"trusted", nil, RedirectOff, true},
		{"trusted, redirect unknown", nil, RedirectUnknown, true},
		{"redirected", nil, RedirectOn, false},
		{"a sign", []string{"a sign"}, RedirectOff, false},
	} {
		x, y := switchPlaces()
		y.bridges[2].Redirect = c.redirect
		p := pairOf(GPU{UUID: "GPU-x", Untrusted: c.untrusted}, &x, d, []place{y})
		if p.Near != c.near || !p.SharedSwitch || p.Redirect != c.redirect || p.Reason == "" {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

// TestPairOfManyDevices: the farthest device counts, in whatever order.
func TestPairOfManyDevices(t *testing.T) {
	x, y := switchPlaces()
	far := place{chain: chain{host: "pci0000:40"}, node: Unknown}
	d := Directory{Path: "/d", Controllers: []Controller{{Name: "nvme0"}, {Name: "nvme1"}}}
	for _, devices := range [][]place{{y, far}, {far, y}, {far, far}} {
		if p := pairOf(GPU{}, &x, d, devices); p.Near || p.SharedSwitch || p.Level != LevelUnknown || len(p.Shared) != 0 || p.Reason == "" {
			t.Errorf("%+v", p)
		}
	}
	if p := pairOf(GPU{}, &x, d, []place{y}); p.Near || p.SharedSwitch {
		t.Errorf("one of two devices was not found: %+v", p)
	}
	if p := pairOf(GPU{}, nil, d, []place{y, y}); p.Near || p.Reason == "" {
		t.Errorf("no place of the GPU: %+v", p)
	}
}
