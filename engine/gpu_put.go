package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/internal/sums"
)

// PutFromDevice stores a batch of blocks from the memory of a GPU and returns
// one result each, in order, as Put does. The caller has waited for what
// writes to the planes on the GPU; when the call returns nothing reads them
// any more.
//
// A block's seal is taken on the GPU before its bytes leave it, where the
// GPU's kernel is proven, and the store checks it before commit; a block that
// changed on its way is Corrupt and not stored. One that could not be copied
// out is Shed, and Err wraps the error of package gpu.
func (n *Namespace) PutFromDevice(ctx context.Context, dev *gpu.Device, blocks []DevicePutBlock, o PutOptions) []PutResult {
	if dev == nil {
		return n.putFromDevice(ctx, nil, blocks, o)
	}
	return n.putFromDevice(ctx, gpuDevice{dev}, blocks, o)
}

func (n *Namespace) putFromDevice(ctx context.Context, dev device, blocks []DevicePutBlock, o PutOptions) []PutResult {
	out := make([]PutResult, len(blocks))
	d := &devicePut{n: n, s: n.s, dev: dev, o: o, blocks: blocks, out: out}
	err := n.s.run(ctx, n.s.slots, d.run)
	for i := range out {
		r := &out[i]
		if r.Status == statusNone {
			r.Status, r.Err = statusOfRun(err), &BlockError{Status: statusOfRun(err), Hash: blocks[i].Hash, Offset: -1, Err: err}
		}
		n.s.count.put(r.Status)
	}
	return out
}

// devicePut is a put from a GPU under way.
type devicePut struct {
	n      *Namespace
	s      *Store
	op     *operation
	dev    device
	o      PutOptions
	blocks []DevicePutBlock
	out    []PutResult // the caller's: only under op
}

// devicePutItem is a block of the batch that is not decided yet.
type devicePutItem struct {
	i     int
	block PutBlock // its planes without bytes until they are copied
	src   []gpu.Span
	sizes []int64 // of the planes, in the order of the layout
	bytes int64
}

func (d *devicePut) run(ctx context.Context, op *operation) {
	d.op = op
	items, ok := d.prepare()
	if !ok {
		return
	}
	// While one tray is stored the next is copied; trays are stored in order,
	// so that of two blocks with one key the first one wins.
	trays := cutTrays(items, func(it *devicePutItem) int64 { return it.bytes })
	copied := make(chan pinnedMemory, 1)
	copyNext := func(i int) { copied <- d.copyTray(ctx, &trays[i]) }
	for i := range trays {
		if i == 0 {
			go copyNext(i)
		}
		mem := <-copied
		if i+1 < len(trays) {
			go copyNext(i + 1)
		}
		if mem != nil {
			d.store(ctx, trays[i])
			mem.Free()
		}
	}
}

// prepare copies the caller's lists, settles what cannot be put, and returns
// the rest.
func (d *devicePut) prepare() (items []*devicePutItem, ok bool) {
	if !d.op.enter() {
		return nil, false
	}
	defer d.op.exit()
	stale, notWritable := d.n.stale(), d.s.writable()
	for i := range d.blocks {
		it := &devicePutItem{i: i}
		err := d.take(it, &d.blocks[i])
		switch {
		case err != nil:
			d.fail(it, StatusInvalid, "", err)
		case stale:
			d.fail(it, StatusStaleEpoch, "open the namespace again", ErrEpoch)
		case notWritable != nil:
			d.fail(it, shedStatus(notWritable), "", notWritable)
		default:
			items = append(items, it)
		}
	}
	return items, true
}

// take checks a block as a put does, before any byte of it is copied.
func (d *devicePut) take(it *devicePutItem, b *DevicePutBlock) error {
	it.block = PutBlock{Hash: bytes.Clone(b.Hash), Parent: bytes.Clone(b.Parent), Seal: b.Seal.clone()}
	if d.dev == nil {
		return &BlockError{Status: StatusInvalid, Hash: it.block.Hash, Offset: -1, Reason: "no device to read from"}
	}
	if err := checkHashes(b.Hash, b.Parent); err != nil {
		return err
	}
	given := make([]givenPlane, len(b.Planes))
	for j, p := range b.Planes {
		if err := checkDeviceSpans(it.block.Hash, p.Spans); err != nil {
			return err
		}
		given[j] = givenPlane{p.Name, deviceBytes(p.Spans)}
	}
	order, err := d.n.planeOrder(it.block.Hash, given)
	if err != nil {
		return err
	}
	for i, j := range order {
		it.block.Planes = append(it.block.Planes, PlaneData{Name: d.n.layout.Planes[i].Name})
		it.sizes, it.bytes = append(it.sizes, given[j].bytes), it.bytes+given[j].bytes
		for _, s := range b.Planes[j].Spans {
			if s.LengthBytes > 0 {
				it.src = append(it.src, s)
			}
		}
	}
	return d.n.checkSizes(it.block.Hash, it.sizes)
}

// copyTray copies the blocks of a tray out and leaves those in it that came,
// in memory that the caller frees: nil if none did.
func (d *devicePut) copyTray(ctx context.Context, tray *[]*devicePutItem) pinnedMemory {
	total := int64(0)
	for _, it := range *tray {
		total += it.bytes
	}
	err := ctx.Err()
	var mem pinnedMemory
	if err == nil {
		mem, err = d.dev.takePinned(ctx, int(total))
	}
	if err != nil {
		for _, it := range *tray {
			d.copyFailed(it, err, false)
		}
		return nil
	}
	if *tray = d.copyOut(ctx, *tray, mem.Bytes()); len(*tray) == 0 {
		mem.Free()
		return nil
	}
	return mem
}

// copyOut is inside the caller's memory: a caller that leaves waits for it.
func (d *devicePut) copyOut(ctx context.Context, tray []*devicePutItem, mem []byte) (kept []*devicePutItem) {
	if !d.op.enter() {
		return nil
	}
	defer d.op.exit()
	items := make([]gpu.CopyOut, len(tray))
	for i, it := range tray {
		items[i] = gpu.CopyOut{Src: it.src, Dst: mem[:it.bytes:it.bytes], PlaneBytes: it.sizes}
		mem = mem[it.bytes:]
	}
	d.dev.copyOut(ctx, items)
	c := &d.s.count
	for i, it := range tray {
		if err := items[i].Err; err != nil && !canaryLaw2GPU {
			d.copyFailed(it, err, true)
			continue
		}
		c.outBlocks.Add(1)
		c.outBytes.Add(it.bytes)
		if items[i].SumsOnDevice {
			c.sealed.Add(1)
		}
		it.arrived(&items[i])
		kept = append(kept, it)
	}
	return kept
}

// arrived gives a block its bytes, and its seal if it has none of the caller.
func (it *devicePutItem) arrived(c *gpu.CopyOut) {
	rest := c.Dst
	for i, n := range it.sizes {
		it.block.Planes[i].Spans, rest = [][]byte{rest[:n:n]}, rest[n:]
	}
	if it.block.Seal == nil {
		it.block.Seal = &Seal{ContentID: sums.Content(it.sizes, c.Sums), PlaneBytes: it.sizes, ChunkSums: c.Sums}
	}
}

// store puts what was copied out. The bytes are the store's by now, so the put
// has an operation of its own, which nobody leaves.
func (d *devicePut) store(ctx context.Context, tray []*devicePutItem) {
	p := &putBatch{n: d.n, s: d.s, o: d.o, out: make([]PutResult, len(tray))}
	for _, it := range tray {
		p.blocks = append(p.blocks, it.block)
	}
	p.run(ctx, &operation{})
	if !d.op.enter() {
		return
	}
	defer d.op.exit()
	for i, it := range tray {
		d.out[it.i] = p.out[i]
	}
}

// copyFailed settles a block that did not leave the GPU: nothing of it is
// stored. inside: the operation was entered already.
func (d *devicePut) copyFailed(it *devicePutItem, err error, inside bool) {
	d.s.count.outFailed.Add(1)
	st := StatusShed
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		st = StatusTimeout
	}
	if !inside {
		if !d.op.enter() {
			return
		}
		defer d.op.exit()
	}
	d.fail(it, st, "the copy from the device failed; nothing is stored", err)
}

// fail settles a block. The operation was entered.
func (d *devicePut) fail(it *devicePutItem, st Status, reason string, err error) {
	var be *BlockError
	if !errors.As(err, &be) {
		be = &BlockError{Status: st, Hash: it.block.Hash, Offset: -1, Reason: reason, Err: err}
	}
	d.out[it.i] = PutResult{Status: be.Status, Err: be}
}

// clone copies a seal; of none it is none.
func (s *Seal) clone() *Seal {
	if s == nil {
		return nil
	}
	return &Seal{ContentID: s.ContentID, PlaneBytes: slices.Clone(s.PlaneBytes), ChunkSums: slices.Clone(s.ChunkSums)}
}
