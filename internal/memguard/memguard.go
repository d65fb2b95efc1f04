// Package memguard works on memory whose pages may go away under the work: a
// mapping of a file that somebody else can cut short. Touching such a page is
// SIGBUS, which ends the process unless the one who touches is prepared.
//
// Only the processor needs it. The kernel reads and writes through the same
// mapping with EFAULT, and what a device has pinned stays where it is.
package memguard

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// ErrGone: pages of the memory were not there when they were touched.
var ErrGone = errors.New("memguard: the memory went away while it was used")

// faultsInRowMax bounds the pages that [Clear] tries in vain: a file that was
// cut has none behind its end.
const faultsInRowMax = 16

// pageMask is the part of an address within its page.
var pageMask = uintptr(os.Getpagesize() - 1)

// Do calls f, on the same goroutine. If f faults at an address of spans its
// rest is left out, and the error wraps ErrGone; what it did before stands. Any
// other panic, and a fault anywhere else, goes on.
//
// f must not leave anything locked when it faults.
func Do(spans [][]byte, f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		fault, ok := r.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !ok || !holds(spans, fault.Addr()) {
			panic(r)
		}
		err = fmt.Errorf("%w (address %#x)", ErrGone, fault.Addr())
	}()
	f()
	return nil
}

// holds reports whether addr lies in a page of spans: a fault may be told by
// the page alone.
func holds(spans [][]byte, addr uintptr) bool {
	addr &^= pageMask
	for _, s := range spans {
		from := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
		if len(s) > 0 && addr >= from&^pageMask && addr < from+uintptr(len(s)) {
			return true
		}
	}
	return false
}

// Clear zeroes what is there of spans. Pages that are gone hold nothing; those
// around them are zeroed all the same.
func Clear(spans [][]byte) {
	for _, s := range spans {
		if Do([][]byte{s}, func() { clear(s) }) != nil {
			clearPages(s)
		}
	}
}

func clearPages(s []byte) {
	for gone := 0; len(s) > 0 && gone < faultsInRowMax; {
		from := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
		page := s[:min(uintptr(len(s)), pageMask+1-from&pageMask)]
		if Do([][]byte{page}, func() { clear(page) }) != nil {
			gone++
		} else {
			gone = 0
		}
		s = s[len(page):]
	}
}
