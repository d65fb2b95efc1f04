package client

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/internal/wire"
)

// Get is that of engine.Namespace. With GetOptions.WaitForDevice parts that lie
// in regions are read right into them, and the call returns when the server has
// let go of them; else the bytes come inside the answer, and are copied when
// all of a block's are there.
func (n *Namespace) Get(ctx context.Context, blocks []engine.GetBlock, o engine.GetOptions) []engine.GetResult {
	ctx, cancel := n.c.bounded(ctx)
	defer cancel()
	out := make([]engine.GetResult, len(blocks))
	items := make([]getItem, len(blocks))
	for i := range blocks {
		items[i] = n.getItem(&blocks[i], o, i)
	}
	refuseOverlaps(items)
	var some []*getItem
	var g grouper
	for i := range items {
		it := &items[i]
		if it.failed != nil {
			out[i] = engine.GetResult{Status: it.failed.Status, Err: it.failed}
			continue
		}
		if !g.fits(it.args(), it.inline) {
			n.getGroup(ctx, some, o, out)
			some = nil
		}
		some = append(some, it)
	}
	n.getGroup(ctx, some, o, out)
	return out
}

// getItem is a block of a get as it goes to the server.
type getItem struct {
	i      int
	block  *engine.GetBlock
	places [][]place // by part; nil: inline
	inline int64
	failed *engine.BlockError // it does not go there
}

func (n *Namespace) getItem(b *engine.GetBlock, o engine.GetOptions, i int) getItem {
	it := getItem{i: i, block: b, places: make([][]place, len(b.Parts))}
	for j := range b.Parts {
		it.places[j] = n.c.places(b.Parts[j].Spans)
		if !o.WaitForDevice && lostRegion(it.places[j]) == nil {
			it.places[j] = nil
		}
		if it.places[j] == nil {
			it.inline += spanBytes(b.Parts[j].Spans)
		}
	}
	it.failed = n.check(b, it.places)
	return it
}

func (it *getItem) args() int { return 2 + 5*len(it.block.Parts) }

// check tests what the server can not see, or would take for something else.
func (n *Namespace) check(b *engine.GetBlock, places [][]place) *engine.BlockError {
	hash := bytes.Clone(b.Hash)
	switch {
	case !goodHash(hash):
		return invalid(hash, "hash of %d bytes: %d to %d are allowed", len(hash), engine.MinHashBytes, engine.MaxHashBytes)
	case len(b.Parts) == 0:
		return invalid(hash, "no parts: say which planes are wanted, and where to")
	case len(b.Parts) > layout.MaxPlanes:
		return invalid(hash, "%d parts: a server takes %d at a time", len(b.Parts), layout.MaxPlanes)
	}
	for j := range b.Parts {
		p := &b.Parts[j]
		switch room := spanBytes(p.Spans); {
		case p.OffsetBytes < 0 || p.LengthBytes < 0:
			return invalid(hash, "negative range: offset %d, length %d", p.OffsetBytes, p.LengthBytes)
		case !n.hasPlane(p.Plane):
			return invalid(hash, "plane %q is not in the layout", p.Plane)
		case p.LengthBytes > 0 && room != p.LengthBytes:
			be := invalid(hash, "spans hold %d bytes, the range has %d", room, p.LengthBytes)
			be.Status = engine.StatusLengthMismatch
			return be
		}
		if lostRegion(places[j]) != nil {
			be := invalid(hash, "a part lies in a lost region")
			be.Err = ErrRegionLost
			return be
		}
	}
	return nil
}

func (n *Namespace) hasPlane(name string) bool {
	planes := n.layout.Planes
	return name == "" && len(planes) == 1 || slices.ContainsFunc(planes, func(p layout.Plane) bool { return p.Name == name })
}

// refuseOverlaps refuses blocks whose destinations share bytes with one another
// or with those of an earlier block: each could be called OK and not be there.
func refuseOverlaps(items []getItem) {
	type destination struct {
		from, to uintptr
		it       *getItem
	}
	var all []destination
	for i := range items {
		for _, p := range items[i].block.Parts {
			for _, s := range p.Spans {
				if len(s) > 0 {
					from := addressOf(s)
					all = append(all, destination{from, from + uintptr(len(s)), &items[i]})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b destination) int { return cmp.Or(cmp.Compare(a.from, b.from), a.it.i-b.it.i) })
	for k := 1; k < len(all); k++ {
		far, d := &all[k-1], &all[k] // far reaches furthest of all before
		if d.from < far.to {
			later := d.it
			if far.it.i > later.i {
				later = far.it
			}
			if later.failed == nil {
				later.failed = invalid(bytes.Clone(later.block.Hash), "spans overlap one another (blocks %d and %d of the batch)", far.it.i, d.it.i)
			}
		}
		if far.to > d.to {
			*d = *far
		}
	}
}

// getGroup does one command and settles its blocks.
func (n *Namespace) getGroup(ctx context.Context, items []*getItem, o engine.GetOptions, out []engine.GetResult) {
	if len(items) == 0 {
		return
	}
	regions := map[*Region]bool{}
	for _, it := range items {
		for _, places := range it.places {
			for _, at := range places {
				regions[at.r] = true
			}
		}
	}
	sent := false
	err := n.with(ctx, n.c.pool.idle, true, func(c *conn, handle int64) error {
		if err := c.share(ctx, regions); err != nil {
			return err
		}
		sent = true
		return n.exchangeShared(ctx, c, getCommand(ctx, c, handle, items, o), regions, func(a *answers) error {
			return readGets(a, items, out)
		})
	})
	for _, it := range items {
		if out[it.i].Status == 0 {
			if sent && codeOf(err) == "" {
				it.clearShared()
			}
			st := statusOf(err, engine.StatusMiss)
			out[it.i] = engine.GetResult{Status: st, Err: blockError(st, bytes.Clone(it.block.Hash), err)}
		}
	}
}

// clearShared takes out of shared memory what nobody has vouched for.
func (it *getItem) clearShared() {
	for j, places := range it.places {
		if places != nil {
			for _, s := range it.block.Parts[j].Spans {
				clear(s)
			}
		}
	}
}

func getCommand(ctx context.Context, c *conn, handle int64, items []*getItem, o engine.GetOptions) *command {
	var words []string
	if o.WantSeal {
		words = append(words, "seal")
	}
	cmd := newCommand("KV.GET")
	cmd.int(handle)
	cmd.str(flags(ctx, words...))
	cmd.int(int64(len(items)))
	for _, it := range items {
		cmd.bytes(it.block.Hash)
		cmd.int(int64(len(it.block.Parts)))
		for j := range it.block.Parts {
			p := &it.block.Parts[j]
			cmd.str(p.Plane)
			// No plane reaches further, and the command takes no more.
			cmd.int(min(p.OffsetBytes, engine.MaxBlockBytes))
			cmd.int(min(p.LengthBytes, engine.MaxBlockBytes))
			if it.places[j] != nil {
				cmd.str("S")
				cmd.places(c, it.places[j])
			} else {
				cmd.str("B")
				cmd.str("")
			}
		}
	}
	return cmd
}

// readGets reads the answer of a command. A block that came whole is settled
// and stands, whatever becomes of those behind it.
func readGets(a *answers, items []*getItem, out []engine.GetResult) error {
	if err := a.listOf(len(items)); err != nil {
		return err
	}
	for _, it := range items {
		r, err := it.read(a)
		if err != nil {
			return err
		}
		out[it.i] = r
	}
	return nil
}

func (it *getItem) read(a *answers) (r engine.GetResult, err error) {
	if err = a.listOf(6); err != nil {
		return r, err
	}
	if r.Status, r.Err, err = a.outcome(it.block.Hash); err != nil {
		return r, err
	}
	if r.Bytes, err = a.int(); err != nil {
		return r, err
	}
	if r.VerifiedBytes, err = a.int(); err != nil {
		return r, err
	}
	seal, err := a.text(wire.SealBytesMax)
	if err != nil {
		return r, err
	}
	if r.Seal, err = wire.ParseSeal(seal); err != nil {
		return r, malformed("%v", err)
	}
	n, err := a.list()
	if err != nil {
		return r, err
	}
	if r.Status != engine.StatusOK {
		if n != 0 {
			return r, malformed("%d parts of a block that is %v", n, r.Status)
		}
		return engine.GetResult{Status: r.Status, Err: r.Err}, nil
	}
	wrong, err := it.readParts(a, n)
	if err == nil && wrong != nil {
		it.clearShared()
		return engine.GetResult{Status: wrong.Status, Err: wrong}, nil
	}
	return r, err
}

// readParts reads the parts that come inside the answer, and copies them when
// all are there. wrong says that they are not what was asked for.
func (it *getItem) readParts(a *answers, n int) (wrong *engine.BlockError, err error) {
	var dest [][][]byte
	for j, places := range it.places {
		if places == nil {
			dest = append(dest, it.block.Parts[j].Spans)
		}
	}
	if n != len(dest) {
		return nil, malformed("%d parts in the answer, %d were asked for", n, len(dest))
	}
	came := make([][]byte, n)
	for j := range dest {
		size, err := a.bulk()
		if err != nil {
			return nil, err
		}
		if room := spanBytes(dest[j]); size != room {
			wrong = invalid(bytes.Clone(it.block.Hash), "%s", fmt.Sprintf("the part holds %d bytes, the spans %d", size, room))
			wrong.Status = engine.StatusLengthMismatch
			err = a.skip(size)
		} else {
			came[j] = make([]byte, size)
			err = a.full(came[j])
		}
		if err == nil {
			err = a.end()
		}
		if err != nil {
			return nil, err
		}
	}
	if wrong == nil {
		for j, p := range came {
			for _, s := range dest[j] {
				p = p[copy(s, p):]
			}
		}
	}
	return wrong, nil
}
