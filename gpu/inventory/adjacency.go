package inventory

import (
	"fmt"
	"strings"
)

// Pair is how a GPU and the device behind a directory hang together.
type Pair struct {
	GPU       string `json:"gpu"` // UUID
	Directory string `json:"directory"`
	// Level is that of the farthest device behind the directory.
	Level Level `json:"level"`
	// SharedSwitch: a PCIe switch above the GPU and every device behind the
	// directory was seen. Without it nothing is known, whatever the level.
	SharedSwitch bool `json:"shared_switch"`
	// Near is what a choice may rest on: a switch is shared, nothing on the way
	// is known to turn the traffic away from it, and the topology is that of a
	// real machine.
	Near bool `json:"near"`
	// Shared are the bridges above both, the root port first.
	Shared []string `json:"shared_bridges"`
	// Redirect is whether a bridge on the way sends peer traffic up to the
	// root complex: on if one does, off if none does, else unknown.
	Redirect Redirect `json:"acs_redirect"`
	// Reason says in a sentence what Near rests on, or what speaks against it.
	Reason string `json:"reason"`
	// Doubts are what is known to make direct transfers of this pair slow or
	// unsafe; none is no promise.
	Doubts []string `json:"doubts"`
}

// place is where a device sits: the way to it, with the facts of its bridges.
type place struct {
	chain   chain
	bridges []Bridge
	node    int
}

// relation is how two devices hang together.
type relation struct {
	level    Level
	proven   bool // a PCIe switch above both was seen
	shared   []string
	redirect Redirect
	reason   string
}

// relate compares two places. It says that a switch is shared only if two
// bridges above both devices are PCI Express, and the way forks below them into
// PCI Express bridges again. That shape is a switch and nothing else: the first
// bridge is the root port; a bridge below it with PCI Express bridges on its
// own bus is a switch's upstream port. One shared bridge is a root port alone,
// and devices without any bridge above them sit on the root bus, as all devices
// of a small virtual machine do: neither says how bytes travel.
func relate(a, b place) relation {
	r := relation{level: LevelUnknown, redirect: RedirectUnknown}
	if a.chain.host != b.chain.host {
		r.level, r.reason = acrossHosts(a, b)
		return r
	}
	n := 0
	for n < len(a.bridges) && n < len(b.bridges) && a.bridges[n].Address == b.bridges[n].Address {
		r.shared = append(r.shared, a.bridges[n].Address)
		n++
	}
	belowA, belowB := a.bridges[n:], b.bridges[n:]
	switch {
	case n == 0 && (len(belowA) == 0 || len(belowB) == 0):
		r.reason = fmt.Sprintf("no bridge above %s was seen: on the root bus %s nothing tells who is near", nameless(a, b), a.chain.host)
	case n == 0:
		r.level = LevelPHB
		r.reason = fmt.Sprintf("they hang on different root ports of %s (%s, %s)", a.chain.host, a.bridges[0].Address, b.bridges[0].Address)
	case n == 1:
		r.reason = fmt.Sprintf("only one bridge is shared (%s): no switch was seen below it", r.shared[0])
	default:
		r.switchSeen(a.bridges[:n], belowA, belowB)
	}
	return r
}

// switchSeen decides whether the shared bridges and the ways below them are a
// switch.
func (r *relation) switchSeen(shared, belowA, belowB []Bridge) {
	if len(belowA) == 0 || len(belowB) == 0 {
		r.reason = fmt.Sprintf("no bridge of its own leads to one of them below %s: that is no switch", shared[len(shared)-1].Address)
		return
	}
	for _, b := range append(append([]Bridge{}, shared...), belowA[0], belowB[0]) {
		if !b.bridge || !b.express {
			r.reason = fmt.Sprintf("bridge %s is not known to be PCI Express: no switch was seen", b.Address)
			return
		}
	}
	for _, role := range []struct {
		bridge Bridge
		want   PortType
	}{
		{shared[0], PortRoot}, {shared[1], PortUpstream}, {shared[len(shared)-1], PortUpstream},
		{belowA[0], PortDownstream}, {belowB[0], PortDownstream},
	} {
		if t := role.bridge.Port; t != PortUnknown && t != role.want {
			r.reason = fmt.Sprintf("bridge %s calls itself %s and not %s: that is no switch", role.bridge.Address, t, role.want)
			return
		}
	}
	r.proven, r.level = true, LevelPXB
	if len(belowA) == 1 && len(belowB) == 1 {
		r.level = LevelPIX
	}
	r.redirect = redirectOf(append(append([]Bridge{}, belowA...), belowB...))
	r.reason = fmt.Sprintf("both hang on the PCIe switch at %s", shared[len(shared)-1].Address)
}

// acrossHosts is the level of devices on different root buses. Nodes count only
// where both are told.
func acrossHosts(a, b place) (Level, string) {
	hosts := fmt.Sprintf("they hang on different root buses (%s, %s)", a.chain.host, b.chain.host)
	switch {
	case a.node == Unknown || b.node == Unknown:
		return LevelUnknown, hosts + " of NUMA nodes that are not told"
	case a.node == b.node:
		return LevelNode, fmt.Sprintf("%s of NUMA node %d", hosts, a.node)
	}
	return LevelSys, fmt.Sprintf("%s of NUMA nodes %d and %d", hosts, a.node, b.node)
}

// redirectOf is whether any of these bridges redirects. Only those below the
// shared port matter: a switch decides where the way turns.
func redirectOf(bridges []Bridge) Redirect {
	all := RedirectOff
	for _, b := range bridges {
		switch b.Redirect {
		case RedirectOn:
			return RedirectOn
		case RedirectUnknown:
			all = RedirectUnknown
		}
	}
	return all
}

func nameless(a, b place) string {
	var names []string
	for _, p := range []place{a, b} {
		if len(p.bridges) == 0 {
			names = append(names, string(p.chain.device))
		}
	}
	return strings.Join(names, " and ")
}

// pairOf joins the relations of a GPU to all devices behind a directory: the
// farthest counts, and the switch must be shared with each.
func pairOf(g GPU, gpu *place, d Directory, devices []place) Pair {
	p := Pair{GPU: g.UUID, Directory: d.Path, Level: LevelUnknown, Shared: []string{}, Redirect: RedirectUnknown, Doubts: doubts(g, d)}
	switch {
	case len(d.Controllers) == 0:
		p.Reason = d.Reason
		return p
	case gpu == nil:
		p.Reason = "it is not known where the GPU sits: " + strings.Join(g.Notes, "; ")
		return p
	case len(devices) < len(d.Controllers):
		p.Reason = d.Reason
		return p
	}
	for i, device := range devices {
		r := relate(*gpu, device)
		if i == 0 {
			p.Level, p.SharedSwitch, p.Shared, p.Redirect, p.Reason = r.level, r.proven, r.shared, r.redirect, r.reason
			continue
		}
		if p.SharedSwitch && !r.proven || farther(p.Level, r.level) != p.Level {
			p.Reason = r.reason
		}
		p.Level, p.SharedSwitch = farther(p.Level, r.level), p.SharedSwitch && r.proven
		p.Shared, p.Redirect = common(p.Shared, r.shared), worse(p.Redirect, r.redirect)
	}
	if len(p.Shared) == 0 {
		p.Shared = []string{}
	}
	p.judge(g)
	return p
}

// judge decides whether a shared switch means anything.
func (p *Pair) judge(g GPU) {
	switch {
	case !p.SharedSwitch:
	case len(g.Untrusted) > 0:
		p.Reason += ", which is not trusted here: " + strings.Join(g.Untrusted, "; ")
	case p.Redirect == RedirectOn:
		p.Reason += ", but access control services on the way send its traffic up to the root complex"
	default:
		p.Near = true
	}
}

// doubts are about the addresses that devices use: NVIDIA's release notes of
// GPUDirect Storage promise nothing where an IOMMU translates them.
func doubts(g GPU, d Directory) []string {
	all := []string{}
	add := func(who, kind string) {
		if kind != "" && kind != "identity" {
			all = append(all, fmt.Sprintf("the IOMMU translates the addresses of %s (%s)", who, kind))
		}
	}
	add("the GPU", g.IOMMUType)
	for _, c := range d.Controllers {
		add(c.Name, c.IOMMUType)
	}
	return all
}

// common is the shared beginning of two ways.
func common(a, b []string) []string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

func worse(a, b Redirect) Redirect {
	for _, r := range []Redirect{RedirectOn, RedirectUnknown} {
		if a == r || b == r {
			return r
		}
	}
	return RedirectOff
}
