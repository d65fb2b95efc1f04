package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/gpu"
)

// GetToDevice reads blocks, planes of blocks or byte ranges into the memory of
// a GPU and returns one result each, in order. The caller has waited for what
// reads or writes the spans on the GPU, and may use them when the call returns.
//
// Bytes are verified before they reach the spans, so on any status but OK the
// destination holds what it held before. (After gpu.ErrDeviceLost nobody can
// say what it holds, nor read it.) Where the directory has a direct path that
// was proven (gpu.Device.AllowDirect) blocks go by it first; what it does not
// bring goes through pinned memory of the host in the same call.
//
// When the context ends first, blocks not yet decided are Timeout. The call
// returns when nothing touches the spans any more; a copy into them that has
// begun is waited for, for as long as gpu.Options.HangTimeout lets it last.
func (n *Namespace) GetToDevice(ctx context.Context, dev *gpu.Device, blocks []DeviceGetBlock, o DeviceGetOptions) []DeviceGetResult {
	if dev == nil {
		return n.getToDevice(ctx, nil, blocks, o)
	}
	return n.getToDevice(ctx, gpuDevice{dev}, blocks, o)
}

func (n *Namespace) getToDevice(ctx context.Context, dev device, blocks []DeviceGetBlock, o DeviceGetOptions) []DeviceGetResult {
	out := make([]DeviceGetResult, len(blocks))
	d := &deviceGet{n: n, s: n.s, dev: dev, o: o, blocks: blocks, out: out}
	err := n.s.run(ctx, n.s.slots, d.run)
	for i := range out {
		r := &out[i]
		if r.Status == statusNone {
			st := statusOfGet(err)
			r.Status, r.Err = st, &BlockError{Status: st, Hash: blocks[i].Hash, Offset: -1, Err: err}
		}
		n.s.count.get(r.Status)
		n.s.count.servedBytes.Add(r.Bytes)
	}
	return out
}

// Dir is the directory as Open was given it: what gpu.Device.AllowDirect, and
// the canary before it, are to be asked about for this store.
func (s *Store) Dir() string { return s.dir }

// deviceGet is a get to a GPU under way.
type deviceGet struct {
	n      *Namespace
	s      *Store
	op     *operation
	dev    device
	o      DeviceGetOptions
	blocks []DeviceGetBlock
	out    []DeviceGetResult // the caller's: only under op
	keys   []index.Key
	wants  []*deviceWant
}

// deviceWant is a block of the batch on its way to the GPU.
type deviceWant struct {
	i        int
	key      index.Key
	parts    []DevicePart // the store's copy
	bytes    int64        // asked for
	found    lookupResult
	settled  bool
	fellBack bool
}

func (d *deviceGet) run(ctx context.Context, op *operation) {
	d.op = op
	if !d.copyArguments() {
		return
	}
	found, refused := d.n.lookupGet(ctx, d.keys)
	if refused != nil {
		for _, w := range d.wants {
			d.fail(w, refused.Status, refused.Reason, refused.Err)
		}
		return
	}
	rest := d.readDirect(ctx, d.sift(found))
	d.bounce(ctx, rest)
}

// copyArguments takes the lists of the caller while it is there.
func (d *deviceGet) copyArguments() bool {
	if !d.op.enter() {
		return false
	}
	defer d.op.exit()
	d.keys = make([]index.Key, len(d.blocks))
	d.wants = make([]*deviceWant, len(d.blocks))
	for i, b := range d.blocks {
		d.keys[i] = index.Key{Namespace: d.n.info.Number, Hash: string(b.Hash)}
		w := &deviceWant{i: i, key: d.keys[i], parts: slices.Clone(b.Parts)}
		for j := range w.parts {
			w.parts[j].Spans = slices.Clone(w.parts[j].Spans)
		}
		d.wants[i] = w
	}
	return true
}

// sift settles what needs no read and returns the rest, in the order of the
// disk.
func (d *deviceGet) sift(found []lookupResult) (rest []*deviceWant) {
	var places []destination
	for i, w := range d.wants {
		w.found = found[i]
		if err := d.check(w); err != nil {
			d.fail(w, StatusInvalid, "", err)
			continue
		}
		places = appendDestinations(places, i, w.parts)
	}
	eachOverlap(places, func(i int, reason string) {
		if w := d.wants[i]; !w.settled {
			d.fail(w, StatusInvalid, reason, nil)
		}
	})
	for _, w := range d.wants {
		switch {
		case w.settled:
		case w.found.bad:
			d.fail(w, StatusCorrupt, "found bad before, quarantined", nil)
		case !w.found.ok:
			d.fail(w, StatusMiss, "", nil)
		default:
			rest = append(rest, w)
		}
	}
	slices.SortStableFunc(rest, func(a, b *deviceWant) int { return compareAddress(a.found, b.found) })
	return rest
}

// check tests what can be told without reading the block.
func (d *deviceGet) check(w *deviceWant) error {
	hash := []byte(w.key.Hash)
	if d.dev == nil {
		return &BlockError{Status: StatusInvalid, Hash: hash, Offset: -1, Reason: "no device to read to"}
	}
	for _, p := range w.parts {
		if err := checkDeviceSpans(hash, p.Spans); err != nil {
			return err
		}
		w.bytes += deviceBytes(p.Spans)
	}
	if err := checkGet(d.n, w.key, w.parts); err != nil {
		return err
	}
	for _, p := range w.parts {
		// The memory for it is taken before the header is read.
		if have := deviceBytes(p.Spans); w.found.ok && have > w.found.entry.RawBytes {
			return &BlockError{Status: StatusLengthMismatch, Hash: hash, Offset: -1,
				Reason: fmt.Sprintf("spans of plane %q hold %d bytes, the whole block has %d", p.Plane, have, w.found.entry.RawBytes)}
		}
	}
	return nil
}

// settle gives a block its result. inside: the operation was entered already.
func (d *deviceGet) settle(w *deviceWant, r DeviceGetResult, inside bool) {
	w.settled = true
	r.FellBack = w.fellBack
	if !inside {
		if !d.op.enter() {
			return
		}
		defer d.op.exit()
	}
	d.out[w.i] = r
}

func (d *deviceGet) fail(w *deviceWant, st Status, reason string, err error) {
	d.settle(w, d.failure(w, st, reason, err), false)
}

// failure is the result of a block that fails; an error that has a status
// keeps it.
func (d *deviceGet) failure(w *deviceWant, st Status, reason string, err error) DeviceGetResult {
	var be *BlockError
	if !errors.As(err, &be) {
		be = &BlockError{Status: st, Offset: -1, Reason: reason, Err: err}
	}
	be.Hash = bytes.Clone([]byte(w.key.Hash))
	return DeviceGetResult{Status: be.Status, Err: be}
}

// deviceFailure is the result of a block that the GPU did not take. The block
// is sound: it is no more than a miss.
func (d *deviceGet) deviceFailure(w *deviceWant, err error) DeviceGetResult {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return d.failure(w, StatusTimeout, "the context ended on the way to the device", err)
	case errors.Is(err, gpu.ErrExhausted):
		return d.failure(w, StatusMiss, "a limit of the device was reached", err)
	}
	return d.failure(w, StatusMiss, "the device did not take it; the block is kept", err)
}
