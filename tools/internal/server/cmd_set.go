package server

import (
	"context"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

func init() {
	register(
		definition{name: "SET", argsMin: 3, argsMax: 8, rights: mayWrite, takesLost: true, keys: oneKey, do: set},
		definition{name: "SETNX", argsMin: 3, argsMax: 3, rights: mayWrite, takesLost: true, keys: oneKey, do: setNX},
		definition{name: "MSET", argsMin: 3, rights: mayWrite, takesLost: true, keys: keyPairs, do: mset},
	)
}

// setOptions are the words after the value.
type setOptions struct{ nx, xx, get bool }

// parseSet reads the words. One that sets a time to live is refused: a value
// that is served past it is a wrong answer, and one that is evicted before it
// is not what was asked for either. KEEPTTL keeps the one that there is: none.
func parseSet(words [][]byte) (o setOptions, problem string) {
	for _, w := range words {
		switch {
		case isWord(w, "NX"):
			o.nx = true
		case isWord(w, "XX"):
			o.xx = true
		case isWord(w, "GET"):
			o.get = true
		case isWord(w, "KEEPTTL"):
		case isWord(w, "EX"), isWord(w, "PX"), isWord(w, "EXAT"), isWord(w, "PXAT"):
			return o, "ERR values have no time to live here: leave " + clip(w) + " out, and delete what is to go"
		default:
			return o, "ERR syntax error"
		}
	}
	if o.nx && o.xx {
		return o, "ERR syntax error"
	}
	return o, ""
}

// set always answers OK where Redis would, also where the value was shed: that
// is a value which was evicted early. It is counted.
func set(c *conn, cmd *resp.Command) {
	o, problem := parseSet(cmd.Args[3:])
	if problem == "" && o.get && !c.may(mayRead) {
		problem = "NOPERM this user has no permission to read with 'set'"
	}
	if problem != "" {
		c.fail("%s", problem)
		return
	}
	key := cmd.Args[1]
	var old *engine.View
	if o.get {
		old = c.view(key)
	}
	done := true
	if !o.xx || c.has(key) {
		done = c.store(key, cmd, 2, o.nx)
	} else {
		done = false
	}
	switch {
	case o.get:
		c.answerView(old)
	case done:
		c.out.Simple("OK")
	default:
		c.out.Null()
	}
}

func setNX(c *conn, cmd *resp.Command) {
	if c.store(cmd.Args[1], cmd, 2, true) {
		c.out.Int(1)
		return
	}
	c.out.Int(0)
}

// mset is a SET of each pair, one after the other: others may see some of them.
func mset(c *conn, cmd *resp.Command) {
	if len(cmd.Args)%2 != 1 {
		c.fail("ERR wrong number of arguments for 'mset' command")
		return
	}
	for i := 1; i < len(cmd.Args); i += 2 {
		c.store(cmd.Args[i], cmd, i+1, false)
	}
	c.out.Simple("OK")
}

// store keeps a value, the argument of cmd at a place. It returns false only
// if nx is set and there is a value.
func (c *conn) store(key []byte, cmd *resp.Command, place int, nx bool) bool {
	k := &c.s.count.kinds[kindPlain]
	k.puts.Add(1)
	if why := c.unkeepable(key, cmd, place); why != limitNone {
		c.s.count.limit(why)
		k.shed.Add(1)
		if !nx {
			c.dropOld(key)
		}
		return true
	}
	p := plainPut{c: c, key: key, hash: engine.KeyHash(key), value: cmd.Args[place], nx: nx}
	_ = c.withPlain(p.put)
	switch {
	case p.refused:
		k.existed.Add(1)
	case p.status == engine.StatusOK && p.existed:
		k.existed.Add(1)
	case p.status == engine.StatusOK:
		k.stored.Add(1)
		k.bytesPut.Add(int64(len(p.value)))
	case p.status == engine.StatusShed || p.status == engine.StatusTooLarge:
		k.shed.Add(1)
	default:
		k.putFailed.Add(1)
	}
	if p.status != engine.StatusOK && !nx {
		c.dropOld(key)
	}
	return !p.refused
}

// unkeepable tells the bound over which a value is shed before the store is
// asked.
func (c *conn) unkeepable(key []byte, cmd *resp.Command, place int) limit {
	for _, l := range cmd.Lost {
		if l.Arg == place || l.Arg == place-1 {
			return limitOf(l.Reason)
		}
	}
	if !keepable(key) {
		return limitKeyBytes
	}
	return limitNone
}

func limitOf(r resp.Reason) limit {
	switch r {
	case resp.ReasonValueBytes:
		return limitValueBytes
	case resp.ReasonCommandBytes:
		return limitCommandBytes
	}
	return limitMemory
}

// dropOld removes the value that a set which was shed was to replace: the
// client was told OK, and is not to read what it has overwritten. Where the
// store can not do that now, the value is hidden until it can.
func (c *conn) dropOld(key []byte) {
	if !keepable(key) {
		return
	}
	tenant, hash := c.who.Tenant, engine.KeyHash(key)
	mu := c.s.overwrites.of(tenant, hash)
	mu.Lock()
	defer mu.Unlock()
	gone := false
	err := c.withPlain(func(ctx context.Context, n *engine.Namespace) bool {
		st := c.s.removeOld(ctx, n, hash)
		gone = st == engine.StatusOK || st == engine.StatusMiss
		return st == engine.StatusStaleEpoch
	})
	if err == nil && gone {
		c.s.hidden.remove(tenant, hash)
		return
	}
	c.s.hide(tenant, hash)
}

// removeOld drops a value. A store that can not write refuses that also for
// one that is not there, so it is asked first, if it knows.
func (s *Server) removeOld(ctx context.Context, n *engine.Namespace, hash []byte) engine.Status {
	if s.store.Health().State < engine.HealthAllMiss {
		if st := n.Has(ctx, [][]byte{hash})[0]; st == engine.StatusMiss || st == engine.StatusStaleEpoch {
			return st
		}
	}
	return n.Drop(ctx, [][]byte{hash})[0].Status
}

// plainPut is a value on its way into the store.
type plainPut struct {
	c          *conn
	key, hash  []byte
	value      []byte
	nx         bool
	refused    bool // nx, and there is a value
	status     engine.Status
	existed    bool
	wasDiffers bool
}

// put implements the work of withPlain.
func (p *plainPut) put(ctx context.Context, n *engine.Namespace) (stale bool) {
	tenant := p.c.who.Tenant
	if p.c.s.hidden.has(tenant, p.hash) {
		return p.unhide(ctx, n)
	}
	p.once(ctx, n)
	if p.wasDiffers && !p.nx {
		mu := p.c.s.overwrites.of(tenant, p.hash)
		mu.Lock()
		defer mu.Unlock()
		p.overwrite(ctx, n)
	}
	p.refused = p.nx && p.status == engine.StatusOK && p.existed
	return p.status == engine.StatusStaleEpoch
}

func (p *plainPut) once(ctx context.Context, n *engine.Namespace) {
	r := n.Put(ctx, []engine.PutBlock{{
		Hash: p.hash, PlainKey: p.key, Planes: []engine.PlaneData{{Name: valuePlane, Spans: storedForm(p.value)}},
	}}, engine.PutOptions{})[0]
	p.status, p.existed, p.wasDiffers = r.Status, r.Existed, r.Differs
}

// unhide puts a value in the place of one that is hidden: it was gone before, so
// that nx is no hindrance, and the value can be read again.
func (p *plainPut) unhide(ctx context.Context, n *engine.Namespace) (stale bool) {
	tenant := p.c.who.Tenant
	mu := p.c.s.overwrites.of(tenant, p.hash)
	mu.Lock()
	defer mu.Unlock()
	hidden := p.c.s.hidden.has(tenant, p.hash)
	p.once(ctx, n)
	if p.wasDiffers && (hidden || !p.nx) {
		p.overwrite(ctx, n)
	}
	p.refused = !hidden && p.nx && p.status == engine.StatusOK && p.existed
	if p.status == engine.StatusOK {
		p.c.s.hidden.remove(tenant, p.hash)
	}
	return p.status == engine.StatusStaleEpoch
}

// overwriteTries is how often a value is put anew: each time somebody that
// does not go through this server may have been faster.
const overwriteTries = 3

// overwrite drops the stored value and puts the new one. The store keeps the
// first value of a key, so there is no other way; a reader sees the old value,
// then for a moment none, then the new one. The stripe of the key is locked.
func (p *plainPut) overwrite(ctx context.Context, n *engine.Namespace) {
	p.c.s.count.overwrites.Add(1)
	for try := 0; try < overwriteTries && p.wasDiffers; try++ {
		if st := n.Drop(ctx, [][]byte{p.hash})[0].Status; st != engine.StatusOK && st != engine.StatusMiss {
			p.status, p.existed, p.wasDiffers = st, false, false
			return
		}
		p.once(ctx, n)
	}
	if p.wasDiffers {
		p.status = engine.StatusShed
	}
}
