//go:build cgo && linux

package main

/*
#include <string.h>
#include "sealstone.h"
*/
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/sealstone/sealstone/tools/libsealstone/internal/core"
)

// sealMax is more than the largest seal there is.
const sealMax = 64 << 10

// planeNameMax is one more than a plane's name may have.
const planeNameMax = 65

// reader copies an operation out of C memory. The first thing that is wrong
// with it stops everything: nothing of an operation that is refused is kept.
type reader struct {
	op    core.Op
	spans int
	store []byte // copies of hashes, names and seals
	err   *core.Error
}

// readJob copies an operation. What lies behind spans stays the caller's.
func readJob(op C.uint32_t, items *C.sealstone_item, n C.size_t, o *C.sealstone_submit_options) (*core.Job, *core.Error) {
	r := &reader{op: core.Op(op)}
	j := &core.Job{Op: r.op}
	switch {
	case !r.op.Known():
		return nil, invalid(fmt.Sprintf("there is no operation %d", uint32(op)))
	case n > C.SEALSTONE_ITEMS_MAX:
		return nil, invalid(fmt.Sprintf("%d items, at most %d are taken", uint64(n), uint32(C.SEALSTONE_ITEMS_MAX)))
	case items == nil && n > 0:
		return nil, invalid("items is NULL")
	}
	if o != nil {
		r.options(j, o)
	}
	if n > 0 {
		j.Items = make([]core.Item, n)
		for i := range unsafe.Slice(items, n) {
			r.item(&j.Items[i], &unsafe.Slice(items, n)[i])
			if r.err != nil {
				return nil, r.err
			}
		}
	}
	return j, r.err
}

func (r *reader) refuse(format string, args ...any) {
	if r.err == nil {
		r.err = invalid(fmt.Sprintf(format, args...))
	}
}

func (r *reader) options(j *core.Job, o *C.sealstone_submit_options) {
	if o.struct_bytes != C.sizeof_sealstone_submit_options {
		r.refuse("options.struct_bytes is %d, in this version it is %d", uint32(o.struct_bytes), uint32(C.sizeof_sealstone_submit_options))
		return
	}
	wait, e := timeoutOf(o.timeout_ns)
	if e != nil {
		r.err = e
		return
	}
	j.Timeout, j.UserData = wait, uint64(o.user_data)
	j.Durable, j.Wait = o.flags&C.SEALSTONE_DURABLE != 0, o.flags&C.SEALSTONE_WAIT_FOR_DEVICE != 0
	if o.flags&^(C.SEALSTONE_DURABLE|C.SEALSTONE_WAIT_FOR_DEVICE) != 0 || j.Durable && j.Op != core.OpPut || j.Wait && j.Op != core.OpGet {
		r.refuse("flags %#x are not of operation %d", uint32(o.flags), j.Op)
	}
}

func (r *reader) item(dst *core.Item, it *C.sealstone_item) {
	if it.reserved[0] != 0 || it.reserved[1] != 0 {
		r.refuse("a reserved field of an item is not 0")
	}
	dst.Hash = r.bytes(it.hash, it.hash_len, C.SEALSTONE_HASH_MAX+1, "hash")
	dst.Parent = r.bytes(it.parent, it.parent_len, C.SEALSTONE_HASH_MAX+1, "parent")
	if len(dst.Parent) > 0 && r.op != core.OpPut {
		r.refuse("parent is of puts only")
	}
	r.seal(dst, it)
	r.parts(dst, it)
}

// bytes copies bytes of the caller: of too many only so many that whoever looks
// at the length still sees it.
func (r *reader) bytes(p *C.uint8_t, n C.uint32_t, most uint32, what string) []byte {
	if n == 0 {
		return nil
	}
	if p == nil {
		r.refuse("%s is NULL and %d bytes long", what, uint32(n))
		return nil
	}
	from := len(r.store)
	r.store = append(r.store, unsafe.Slice((*byte)(p), min(uint32(n), most))...)
	return r.store[from:len(r.store):len(r.store)]
}

func (r *reader) seal(dst *core.Item, it *C.sealstone_item) {
	switch {
	case it.seal_len == 0:
	case it.seal == nil || it.seal_len > sealMax:
		r.refuse("seal is NULL, or %d bytes: at most %d", uint32(it.seal_len), sealMax)
	case r.op == core.OpPut:
		dst.Seal = r.bytes(it.seal, it.seal_len, sealMax, "seal")
	case r.op == core.OpGet:
		dst.SealOut = core.Span{Ptr: unsafe.Pointer(it.seal), Len: uint64(it.seal_len)}
	default:
		r.refuse("seal is of puts and gets only")
	}
}

func (r *reader) parts(dst *core.Item, it *C.sealstone_item) {
	switch {
	case r.err != nil || it.n_parts == 0:
		return
	case r.op != core.OpPut && r.op != core.OpGet:
		r.refuse("parts are of puts and gets only")
		return
	case it.parts == nil || it.n_parts > C.SEALSTONE_PARTS_MAX:
		r.refuse("parts is NULL, or %d parts: at most %d", uint32(it.n_parts), uint32(C.SEALSTONE_PARTS_MAX))
		return
	}
	dst.Parts = make([]core.Part, it.n_parts)
	list := unsafe.Slice(it.parts, it.n_parts)
	for i := range list {
		r.part(&dst.Parts[i], &list[i])
	}
}

func (r *reader) part(dst *core.Part, p *C.sealstone_part) {
	switch {
	case p.reserved != 0:
		r.refuse("a reserved field of a part is not 0")
	case r.op == core.OpPut && (p.offset != 0 || p.length != 0):
		r.refuse("offset and length are of gets only: a put stores whole planes")
	case p.offset > math.MaxInt64 || p.length > math.MaxInt64:
		r.refuse("offset %d, length %d: no plane is that long", uint64(p.offset), uint64(p.length))
	case r.spans+int(p.n_spans) > C.SEALSTONE_SPANS_MAX:
		r.refuse("more than %d spans", uint32(C.SEALSTONE_SPANS_MAX))
	case p.spans == nil && p.n_spans > 0:
		r.refuse("spans is NULL")
	}
	if r.err != nil {
		return
	}
	r.spans += int(p.n_spans)
	if p.plane != nil {
		dst.Plane = C.GoStringN(p.plane, C.int(C.strnlen(p.plane, planeNameMax)))
	}
	dst.OffsetBytes, dst.LengthBytes = int64(p.offset), int64(p.length)
	dst.Spans = make([]core.Span, 0, p.n_spans)
	if p.n_spans > 0 {
		for _, s := range unsafe.Slice(p.spans, p.n_spans) {
			r.span(dst, s)
		}
	}
}

func (r *reader) span(dst *core.Part, s C.sealstone_span) {
	switch {
	case s.len == 0:
	case s.ptr == nil:
		r.refuse("a span of %d bytes at NULL", uint64(s.len))
	case s.len > C.SEALSTONE_BLOCK_MAX:
		r.refuse("a span of %d bytes: no block is larger than %d", uint64(s.len), uint64(C.SEALSTONE_BLOCK_MAX))
	case uint64(uintptr(s.ptr))+uint64(s.len) < uint64(s.len):
		r.refuse("a span that goes past the end of memory")
	default:
		dst.Spans = append(dst.Spans, core.Span{Ptr: s.ptr, Len: uint64(s.len)})
	}
}
