//go:build cgo && linux

package main

/*
#include "sealstone.h"
*/
import "C"

import (
	"math"
	"unsafe"

	"github.com/sealstone/sealstone/tools/libsealstone/internal/core"
)

//export seal_go_submit
func seal_go_submit(store C.sealstone_store, ns C.sealstone_namespace, op C.uint32_t, items *C.sealstone_item, n C.size_t, options *C.sealstone_submit_options, opID *C.uint64_t) (st C.sealstone_status) {
	defer guard(&st)
	j, e := readJob(op, items, n, options)
	if e != nil {
		return status(e)
	}
	id, e := lib.Submit(uint64(store), uint64(ns), j)
	if e == nil && opID != nil {
		*opID = C.uint64_t(id)
	}
	return status(e)
}

//export seal_go_drain
func seal_go_drain(store C.sealstone_store, completions *C.sealstone_completion, most C.size_t, results *C.sealstone_result, room C.size_t, n, needed *C.size_t) (st C.sealstone_status) {
	defer guard(&st)
	if n == nil || completions == nil || most == 0 || results == nil && room > 0 {
		return status(invalid("n or completions is NULL, cap is 0, or results is NULL with room"))
	}
	*n = 0
	if needed != nil {
		*needed = 0
	}
	taken, want, e := lib.Drain(uint64(store), bounded(most), bounded(room))
	if e != nil {
		return status(e)
	}
	if needed != nil {
		*needed = C.size_t(want)
	}
	if len(taken) == 0 {
		if want > 0 {
			return C.SEALSTONE_TOO_SMALL
		}
		return C.SEALSTONE_OK
	}
	copyOut(taken, unsafe.Slice(completions, len(taken)), results)
	*n = C.size_t(len(taken))
	return C.SEALSTONE_OK
}

func bounded(n C.size_t) int { return int(min(n, math.MaxInt32)) }

// copyOut writes completions and results into the caller's arrays, which have
// room for them.
func copyOut(taken []*core.Completion, out []C.sealstone_completion, results *C.sealstone_result) {
	first := 0
	for i, c := range taken {
		out[i] = C.sealstone_completion{
			op_id: C.uint64_t(c.ID), user_data: C.uint64_t(c.UserData), status: C.sealstone_status(c.Status),
			op: C.uint32_t(c.Op), n_results: C.uint32_t(len(c.Results)), n_ok: C.uint32_t(c.OKs), first_result: C.uint64_t(first),
		}
		if len(c.Results) == 0 {
			continue
		}
		list := unsafe.Slice(results, first+len(c.Results))[first:]
		for k, r := range c.Results {
			list[k] = C.sealstone_result{
				status: C.sealstone_status(r.Status), flags: C.uint32_t(r.Flags), bytes: C.uint64_t(r.Bytes),
				verified_bytes: C.uint64_t(r.VerifiedBytes), seal_len: C.uint32_t(r.SealBytes),
			}
		}
		first += len(c.Results)
	}
}

//export seal_go_reason
func seal_go_reason(store C.sealstone_store, op C.uint64_t, item C.uint32_t, text *C.char, size C.size_t) (st C.sealstone_status) {
	defer guard(&st)
	why, e := lib.Reason(uint64(store), uint64(op), uint32(item))
	putText(text, size, oneLine(why))
	return status(e)
}
