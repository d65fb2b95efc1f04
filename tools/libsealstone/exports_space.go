//go:build cgo && linux

package main

/*
#include "sealstone.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/sealstone/sealstone/tools/libsealstone/internal/core"
)

//export seal_go_open_namespace
func seal_go_open_namespace(store C.sealstone_store, layoutJSON, tenant, optionsJSON *C.char, ns *C.sealstone_namespace, dst *C.char, size C.size_t, needed *C.size_t) (st C.sealstone_status) {
	defer guard(&st)
	h, detail, e := openNamespace(store, layoutJSON, tenant, optionsJSON, ns)
	if ns != nil {
		*ns = C.sealstone_namespace(h)
	}
	putJSON(dst, size, needed, detail)
	return status(e)
}

func openNamespace(store C.sealstone_store, layoutJSON, tenant, optionsJSON *C.char, ns *C.sealstone_namespace) (uint64, []byte, *core.Error) {
	if ns == nil {
		return refuseNamespace(invalid("ns is NULL"))
	}
	lay, e := needText(layoutJSON, "layout_json")
	if e != nil {
		return refuseNamespace(e)
	}
	who, e := cText(tenant, "tenant")
	if e != nil {
		return refuseNamespace(e)
	}
	o, e := cText(optionsJSON, "options_json")
	if e != nil {
		return refuseNamespace(e)
	}
	return lib.OpenSpace(uint64(store), lay, string(who), o)
}

func refuseNamespace(e *core.Error) (uint64, []byte, *core.Error) {
	return 0, fmt.Appendf(nil, `{"error":%q}`, e.Text), e
}

//export seal_go_namespace_info
func seal_go_namespace_info(ns C.sealstone_namespace, dst *C.char, size C.size_t, needed *C.size_t) (st C.sealstone_status) {
	defer guard(&st)
	p, e := lib.SpaceInfo(uint64(ns))
	return answerJSON(p, e, dst, size, needed)
}

//export seal_go_bump_epoch
func seal_go_bump_epoch(ns C.sealstone_namespace, timeout C.int64_t, next *C.sealstone_namespace, text *C.char, size C.size_t) (st C.sealstone_status) {
	defer guard(&st)
	if next == nil {
		return fail(invalid("next is NULL"), text, size)
	}
	*next = 0
	wait, e := timeoutOf(timeout)
	if e != nil {
		return fail(e, text, size)
	}
	h, e := lib.BumpEpoch(uint64(ns), wait)
	*next = C.sealstone_namespace(h)
	return fail(e, text, size)
}

//export seal_go_close_namespace
func seal_go_close_namespace(ns C.sealstone_namespace) (st C.sealstone_status) {
	defer guard(&st)
	return status(lib.CloseSpace(uint64(ns)))
}

// flatHashes is what the caller's hashes are as a slice of its memory.
func flatHashes(hashes *C.uint8_t, size C.uint32_t, n C.size_t) ([]byte, *core.Error) {
	switch {
	case n > C.SEALSTONE_LOOKUP_MAX:
		return nil, invalid(fmt.Sprintf("%d hashes, at most %d are looked up at a time", uint64(n), uint64(C.SEALSTONE_LOOKUP_MAX)))
	case size < C.SEALSTONE_HASH_MIN || size > C.SEALSTONE_HASH_MAX:
		return nil, invalid(fmt.Sprintf("hash_len is %d: %d to %d are allowed", uint32(size), uint32(C.SEALSTONE_HASH_MIN), uint32(C.SEALSTONE_HASH_MAX)))
	case n == 0:
		return nil, nil
	case hashes == nil:
		return nil, invalid("hashes is NULL")
	}
	return unsafe.Slice((*byte)(hashes), uint64(size)*uint64(n)), nil
}

//export seal_go_lookup_now
func seal_go_lookup_now(ns C.sealstone_namespace, hashes *C.uint8_t, hashLen C.uint32_t, n C.size_t, statuses *C.uint8_t) (st C.sealstone_status) {
	defer guard(&st)
	flat, e := flatHashes(hashes, hashLen, n)
	if e == nil && n > 0 && statuses == nil {
		e = invalid("statuses is NULL")
	}
	if e != nil {
		return status(e)
	}
	return status(lib.LookupNow(uint64(ns), flat, int(hashLen), unsafe.Slice((*byte)(statuses), uint64(n))))
}

//export seal_go_match
func seal_go_match(ns C.sealstone_namespace, hashes *C.uint8_t, hashLen C.uint32_t, n C.size_t, timeout C.int64_t, blocks *C.size_t, lease *C.sealstone_lease, text *C.char, size C.size_t) (st C.sealstone_status) {
	defer guard(&st)
	if blocks == nil || lease == nil {
		return fail(invalid("blocks or lease is NULL"), text, size)
	}
	*blocks, *lease = 0, 0
	wait, e := timeoutOf(timeout)
	if e != nil {
		return fail(e, text, size)
	}
	flat, e := flatHashes(hashes, hashLen, n)
	if e != nil {
		return fail(e, text, size)
	}
	found, h, e := lib.Match(uint64(ns), flat, int(hashLen), wait)
	*blocks, *lease = C.size_t(found), C.sealstone_lease(h)
	return fail(e, text, size)
}

//export seal_go_renew
func seal_go_renew(lease C.sealstone_lease) (st C.sealstone_status) {
	defer guard(&st)
	return status(lib.Renew(uint64(lease)))
}

//export seal_go_release
func seal_go_release(lease C.sealstone_lease) (st C.sealstone_status) {
	defer guard(&st)
	return status(lib.Release(uint64(lease)))
}
