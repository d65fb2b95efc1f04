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

//export seal_go_open
func seal_go_open(optionsJSON *C.char, store *C.sealstone_store, text *C.char, size C.size_t) (st C.sealstone_status) {
	defer guard(&st)
	if store == nil {
		return fail(invalid("store is NULL"), text, size)
	}
	*store = 0
	o, e := needText(optionsJSON, "options_json")
	if e != nil {
		return fail(e, text, size)
	}
	h, e := lib.Open(o)
	*store = C.sealstone_store(h)
	return fail(e, text, size)
}

//export seal_go_close
func seal_go_close(store C.sealstone_store, timeout C.int64_t, text *C.char, size C.size_t) (st C.sealstone_status) {
	defer guard(&st)
	wait, e := timeoutOf(timeout)
	if e == nil {
		e = lib.Close(uint64(store), wait)
	}
	return fail(e, text, size)
}

//export seal_go_stats
func seal_go_stats(store C.sealstone_store, dst *C.char, size C.size_t, needed *C.size_t) (st C.sealstone_status) {
	defer guard(&st)
	p, e := lib.Stats(uint64(store))
	return answerJSON(p, e, dst, size, needed)
}

//export seal_go_health
func seal_go_health(store C.sealstone_store, state *C.int32_t, dst *C.char, size C.size_t, needed *C.size_t) (st C.sealstone_status) {
	defer guard(&st)
	h, p, e := lib.Health(uint64(store))
	if state != nil {
		*state = C.int32_t(h)
	}
	if e == nil && dst == nil && size == 0 { // only the state was asked for
		if needed != nil {
			*needed = C.size_t(len(p) + 1)
		}
		return C.SEALSTONE_OK
	}
	return answerJSON(p, e, dst, size, needed)
}

//export seal_go_events
func seal_go_events(store C.sealstone_store, after C.uint64_t, dst *C.char, size C.size_t, needed *C.size_t) (st C.sealstone_status) {
	defer guard(&st)
	p, e := lib.Events(uint64(store), uint64(after))
	return answerJSON(p, e, dst, size, needed)
}

//export seal_go_event_fd
func seal_go_event_fd(store C.sealstone_store, fd *C.int) (st C.sealstone_status) {
	defer guard(&st)
	if fd == nil {
		return status(invalid("fd is NULL"))
	}
	n, e := lib.EventFd(uint64(store))
	*fd = C.int(n)
	return status(e)
}

//export seal_go_wait_idle
func seal_go_wait_idle(store C.sealstone_store, timeout C.int64_t) (st C.sealstone_status) {
	defer guard(&st)
	wait, e := timeoutOf(timeout)
	if e == nil {
		e = lib.WaitIdle(uint64(store), wait)
	}
	return status(e)
}

//export seal_go_register_region
func seal_go_register_region(store C.sealstone_store, base unsafe.Pointer, length C.uint64_t, fd C.int, region *C.sealstone_region, text *C.char, size C.size_t) (st C.sealstone_status) {
	defer guard(&st)
	switch {
	case region == nil:
		return fail(invalid("region is NULL"), text, size)
	case base == nil || length == 0 || uint64(length) > math.MaxInt64-uint64(uintptr(base)):
		*region = 0
		return fail(invalid("base is NULL, or len is not that of memory"), text, size)
	}
	h, e := lib.Register(uint64(store), core.Span{Ptr: base, Len: uint64(length)}, int(fd))
	*region = C.sealstone_region(h)
	return fail(e, text, size)
}

//export seal_go_unregister_region
func seal_go_unregister_region(store C.sealstone_store, region C.sealstone_region) (st C.sealstone_status) {
	defer guard(&st)
	return status(lib.Unregister(uint64(store), uint64(region)))
}
