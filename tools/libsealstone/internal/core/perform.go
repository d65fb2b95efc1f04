package core

import (
	"context"
	"fmt"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/wire"
)

// reasonsMax bounds the reasons that are kept of one job.
const reasonsMax = 64

// performing is a job under way.
type performing struct {
	job     *Job
	id      uint64
	results []Result
	reasons []reason
}

// perform does a job and answers every item of it. When it returns, nothing
// touches the caller's memory any more.
func perform(ctx context.Context, sp space, id uint64, j *Job) ([]Result, []reason) {
	p := &performing{job: j, id: id, results: make([]Result, len(j.Items))}
	switch j.Op {
	case OpPut:
		p.put(ctx, sp)
	case OpGet:
		p.get(ctx, sp)
	case OpExists:
		p.each(sp.Has(ctx, p.hashes()))
	case OpTouch:
		p.each(sp.Touch(ctx, p.hashes()))
	case OpDrop:
		for i, r := range sp.Drop(ctx, p.hashes()) {
			p.settle(i, Result{Status: Status(r.Status)}, r.Err)
		}
	}
	return p.results, p.reasons
}

// unfinished are the results of a job of which nothing was begun.
func unfinished(id uint64, j *Job, st Status, why string) ([]Result, []reason) {
	p := &performing{job: j, id: id, results: make([]Result, len(j.Items))}
	for i := range p.results {
		p.results[i] = Result{Status: st}
		p.keep(i, why)
	}
	return p.results, p.reasons
}

// settle gives an item its result. A plain miss needs no reason.
func (p *performing) settle(i int, r Result, err error) {
	p.results[i] = r
	if r.Status != OK && r.Status != Miss && err != nil {
		p.keep(i, err.Error())
	}
}

func (p *performing) keep(i int, text string) {
	if len(p.reasons) < reasonsMax {
		p.reasons = append(p.reasons, reason{p.id, uint32(i), text})
	}
}

func (p *performing) hashes() [][]byte {
	out := make([][]byte, len(p.job.Items))
	for i := range out {
		out[i] = p.job.Items[i].Hash
	}
	return out
}

func (p *performing) each(got []engine.Status) {
	for i, st := range got {
		p.settle(i, Result{Status: Status(st)}, nil)
	}
}

func (p *performing) put(ctx context.Context, sp space) {
	blocks := make([]engine.PutBlock, 0, len(p.job.Items))
	at := make([]int, 0, len(p.job.Items)) // the item of each block
	for i := range p.job.Items {
		it := &p.job.Items[i]
		b := engine.PutBlock{Hash: it.Hash, Parent: it.Parent}
		if it.Seal != nil {
			var err error
			if b.Seal, err = wire.ParseSeal(it.Seal); err != nil || b.Seal == nil {
				p.settle(i, Result{Status: Invalid}, fmt.Errorf("the seal of %d bytes is none, or of a newer version", len(it.Seal)))
				continue
			}
		}
		for k := range it.Parts {
			b.Planes = append(b.Planes, engine.PlaneData{Name: it.Parts[k].Plane, Spans: spansOf(it.Parts[k].Spans)})
		}
		if len(b.Planes) == 1 && b.Planes[0].Name == "" {
			b.Planes[0].Name = sp.onlyPlane()
		}
		blocks, at = append(blocks, b), append(at, i)
	}
	if len(blocks) == 0 {
		return
	}
	for k, r := range sp.Put(ctx, blocks, engine.PutOptions{Durable: p.job.Durable}) {
		p.settle(at[k], Result{Status: Status(r.Status), Flags: flagsOf(&r), Bytes: uint64(r.WrittenBytes)}, r.Err)
	}
}

func flagsOf(r *engine.PutResult) uint32 {
	return flag(FlagExisted, r.Existed) | flag(FlagDiffers, r.Differs) | flag(FlagShared, r.Shared) | flag(FlagDurable, r.Durable)
}

func flag(bit uint32, set bool) uint32 {
	if set {
		return bit
	}
	return 0
}

func (p *performing) get(ctx context.Context, sp space) {
	blocks := make([]engine.GetBlock, len(p.job.Items))
	wantSeal := false
	for i := range p.job.Items {
		it := &p.job.Items[i]
		blocks[i].Hash = it.Hash
		wantSeal = wantSeal || it.SealOut.Len > 0
		for k := range it.Parts {
			part := &it.Parts[k]
			blocks[i].Parts = append(blocks[i].Parts, engine.Part{
				Plane: part.Plane, OffsetBytes: part.OffsetBytes, LengthBytes: part.LengthBytes, Spans: spansOf(part.Spans),
			})
		}
	}
	o := engine.GetOptions{WantSeal: wantSeal, WaitForDevice: p.job.Wait}
	for i, r := range sp.Get(ctx, blocks, o) {
		out := Result{Status: Status(r.Status), Bytes: uint64(r.Bytes), VerifiedBytes: uint64(r.VerifiedBytes)}
		if room := p.job.Items[i].SealOut; room.Len > 0 && r.Seal != nil && r.Status == engine.StatusOK {
			seal := wire.AppendSeal(nil, r.Seal)
			out.SealBytes = uint32(len(seal))
			if uint64(len(seal)) <= room.Len {
				copy(room.bytes(), seal)
			}
		}
		p.settle(i, out, r.Err)
	}
}

// spansOf makes the caller's memory slices, for the time of the operation.
func spansOf(spans []Span) [][]byte {
	out := make([][]byte, 0, len(spans))
	for _, s := range spans {
		if s.Len > 0 {
			out = append(out, s.bytes())
		}
	}
	return out
}
