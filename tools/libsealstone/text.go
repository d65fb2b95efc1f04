//go:build cgo && linux

package main

/*
#include <string.h>
#include "sealstone.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/sealstone/sealstone/tools/libsealstone/internal/core"
)

// cText copies a string of the caller; NULL is none.
func cText(p *C.char, what string) ([]byte, *core.Error) {
	if p == nil {
		return nil, nil
	}
	n := C.strnlen(p, core.JSONMax+1)
	if n > core.JSONMax {
		return nil, invalid(fmt.Sprintf("%s: no NUL within %d bytes", what, core.JSONMax))
	}
	return C.GoBytes(unsafe.Pointer(p), C.int(n)), nil
}

// needText is cText for what must be there.
func needText(p *C.char, what string) ([]byte, *core.Error) {
	if p == nil {
		return nil, invalid(what + " is NULL")
	}
	return cText(p, what)
}

// putText writes s and a NUL into a buffer of the caller, cut between two
// characters where it does not fit.
func putText(dst *C.char, size C.size_t, s string) {
	if dst == nil || size == 0 {
		return
	}
	// No more than is written: a host may say that it has all the room there is.
	p := unsafe.Slice((*byte)(unsafe.Pointer(dst)), min(uint64(size), uint64(len(s))+1))
	p[cutText(p[:len(p)-1], s)] = 0
}

// cutText copies what fits and returns its length.
func cutText(p []byte, s string) int {
	n := len(s)
	if n > len(p) {
		for n = len(p); n > 0 && !utf8.RuneStart(s[n]); n-- {
		}
	}
	return copy(p, s[:n])
}

// oneLine makes a line of a text of several, as errors joined are.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

// putJSON writes JSON as a whole or not at all, and tells how much room it
// needs. It reports whether it fit.
func putJSON(dst *C.char, size C.size_t, needed *C.size_t, p []byte) bool {
	if needed != nil {
		*needed = C.size_t(len(p) + 1)
	}
	if dst == nil || C.size_t(len(p)) >= size {
		putText(dst, size, "")
		return false
	}
	putText(dst, size, string(p))
	return true
}

// answerJSON ends a call whose answer is JSON.
func answerJSON(p []byte, e *core.Error, dst *C.char, size C.size_t, needed *C.size_t) C.sealstone_status {
	if e != nil {
		putText(dst, size, "")
		return status(e)
	}
	if !putJSON(dst, size, needed, p) {
		return C.SEALSTONE_TOO_SMALL
	}
	return C.SEALSTONE_OK
}

// timeoutMax is the longest that anything waits.
const timeoutMax = 24 * time.Hour

// timeoutOf reads a timeout in nanoseconds.
func timeoutOf(ns C.int64_t) (time.Duration, *core.Error) {
	if ns < 0 {
		return 0, invalid(fmt.Sprintf("timeout of %d nanoseconds: 0 is the store's, negative is nothing", int64(ns)))
	}
	return min(time.Duration(ns), timeoutMax), nil
}
