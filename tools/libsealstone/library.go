//go:build cgo && linux

package main

/*
#include <stdlib.h>
#include "sealstone.h"
#include "fork.h"

void seal_set_version(const char *text);
*/
import "C"

import (
	"unsafe"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tools/libsealstone/internal/core"
)

// version is set by the linker (make lib).
var version = "dev"

// lib is what the process has open.
var lib = core.New()

// init runs before the first call gets in. Locks are told to the C side, which
// alone can close them in a child.
func init() {
	text := C.CString(version)
	defer C.free(unsafe.Pointer(text))
	C.seal_set_version(text)
	vfs.WatchLocks(&vfs.LockWatcher{
		Taken: func(fd int) { C.seal_lock_taken(C.int(fd)) },
		Given: func(fd int) { C.seal_lock_given(C.int(fd)) },
	})
}

//export seal_go_ready
func seal_go_ready() {}

// guard is deferred by every exported function: no panic crosses into C.
func guard(st *C.sealstone_status) {
	if v := recover(); v != nil {
		*st = status(lib.Caught(v))
	}
}

// status is what a call returns for its failure, or for none.
func status(e *core.Error) C.sealstone_status {
	if e == nil {
		return C.SEALSTONE_OK
	}
	return C.sealstone_status(e.Status)
}

// fail also writes the failure's text.
func fail(e *core.Error, text *C.char, size C.size_t) C.sealstone_status {
	if e == nil {
		putText(text, size, "")
	} else {
		putText(text, size, oneLine(e.Text))
	}
	return status(e)
}

// invalid is the status for arguments that are refused before anything is
// looked at.
func invalid(why string) *core.Error { return &core.Error{Status: core.Invalid, Text: why} }
