package server

import (
	"slices"

	"github.com/sealstone/sealstone/tools/internal/access"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

// rights are what a peer must have to run a command.
type rights uint8

const (
	mayRead rights = 1 << iota
	mayWrite
	mayDrop
	// noLogin is a command for peers that have not said who they are, too.
	noLogin
)

// definition is a command as the table has it.
type definition struct {
	name             string
	argsMin, argsMax int // the name counted; argsMax 0 is no bound of its own
	rights           rights
	takesLost        bool // does without arguments that found no room
	keys             keyPlaces
	do               func(*conn, *resp.Command)
	index            int // in the counters
}

// keyPlaces say which arguments are keys, as COMMAND tells clients.
type keyPlaces struct{ first, last, step int }

var (
	oneKey   = keyPlaces{1, 1, 1}
	allKeys  = keyPlaces{1, -1, 1}
	keyPairs = keyPlaces{1, -1, 2}
)

// commandsMax is the size of the counters; the table is smaller.
const commandsMax = 80

var (
	table   = map[string]*definition{}
	unknown = &definition{name: "unknown", index: 0}
)

// register fills the table, once.
func register(defs ...definition) {
	for i := range defs {
		d := &defs[i]
		d.index = len(table) + 1
		table[d.name] = d
	}
}

const nameBytesMax = 32

// lookUp finds a command by its name, in whatever case.
func lookUp(name []byte) *definition {
	var upper [nameBytesMax]byte
	if len(name) > len(upper) {
		return unknown
	}
	for i, b := range name {
		if b >= 'a' && b <= 'z' {
			b -= 'a' - 'A'
		}
		upper[i] = b
	}
	if d := table[string(upper[:len(name)])]; d != nil {
		return d
	}
	return unknown
}

// definitions lists the table in the order of the counters.
func definitions() []*definition {
	all := make([]*definition, 0, len(table)+1)
	all = append(all, unknown)
	for _, d := range table {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b *definition) int { return a.index - b.index })
	return all
}

// may reports whether the peer has rights.
func (c *conn) may(r rights) bool { return allows(c.who, r) }

func allows(who access.Identity, r rights) bool {
	return (r&mayRead == 0 || who.Read) && (r&mayWrite == 0 || who.Write) && (r&mayDrop == 0 || who.Drop)
}
