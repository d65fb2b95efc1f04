package s3fifo

// ghosts remembers fingerprints of items that are gone, the latest ones, as
// many as their bytes allow.
type ghosts struct {
	bytesMax int64
	bytes    int64
	turn     uint64 // of the latest
	oldest   uint64
	at       map[uint64]uint64 // turn by fingerprint
	ring     map[uint64]ghost  // by turn
}

type ghost struct {
	id        uint64
	sizeBytes int64
}

// ghostBytes is about what one costs: its places in two maps.
const ghostBytes = 96

func newGhosts(bytesMax int64) *ghosts {
	return &ghosts{bytesMax: bytesMax, oldest: 1, at: map[uint64]uint64{}, ring: map[uint64]ghost{}}
}

func (g *ghosts) add(id uint64, sizeBytes int64) {
	g.take(id)
	g.turn++
	g.at[id], g.ring[g.turn] = g.turn, ghost{id, sizeBytes}
	g.bytes += sizeBytes
	for g.bytes > g.bytesMax {
		g.forget(g.oldest)
		g.oldest++
	}
}

// take reports whether an item is remembered, and forgets it.
func (g *ghosts) take(id uint64) bool {
	turn, ok := g.at[id]
	if ok {
		g.forget(turn)
	}
	return ok
}

func (g *ghosts) forget(turn uint64) {
	old, ok := g.ring[turn]
	if !ok {
		return // taken before
	}
	delete(g.ring, turn)
	delete(g.at, old.id)
	g.bytes -= old.sizeBytes
}
