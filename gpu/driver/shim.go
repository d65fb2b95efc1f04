//go:build cgo && linux

package driver

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall
#cgo LDFLAGS: -ldl
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"
)

// loaded are the libraries of this process by the path that was asked for. They
// are never unloaded, so a second Open must not load a second table.
var loaded = struct {
	sync.Mutex
	cuda   map[string]*C.ss_cuda
	cuFile map[string]*C.ss_cufile
}{cuda: map[string]*C.ss_cuda{}, cuFile: map[string]*C.ss_cufile{}}

func loadCUDA(path string) (*C.ss_cuda, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if t := loaded.cuda[path]; t != nil {
		return t, nil
	}
	p, err := load(path, func(c *C.char) C.ss_loaded { return C.ss_cuda_load(c) })
	if err != nil {
		return nil, err
	}
	loaded.cuda[path] = (*C.ss_cuda)(p)
	return (*C.ss_cuda)(p), nil
}

func loadCuFile(path string) (*C.ss_cufile, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if t := loaded.cuFile[path]; t != nil {
		return t, nil
	}
	p, err := load(path, func(c *C.char) C.ss_loaded { return C.ss_cufile_load(c) })
	if err != nil {
		return nil, err
	}
	loaded.cuFile[path] = (*C.ss_cufile)(p)
	return (*C.ss_cufile)(p), nil
}

// load calls one of the loaders. A failure is not remembered: the library may be
// installed later.
func load(path string, with func(*C.char) C.ss_loaded) (unsafe.Pointer, error) {
	c := C.CString(path)
	defer C.free(unsafe.Pointer(c))
	l := with(c)
	if l.table == nil {
		defer C.free(unsafe.Pointer(l.error))
		return nil, fmt.Errorf("%w: %s cannot be loaded: %s", ErrUnavailable, path, C.GoString(l.error))
	}
	return l.table, nil
}

// check turns a result into an error. The number is of the library that the
// failed function is from: entering a context is CUDA's, whatever was to follow.
func check(r C.ss_result) error {
	if r.code == 0 {
		return nil
	}
	call := C.GoString(r.call)
	switch {
	case r.code == C.SS_MISSING:
		return missing(call)
	case strings.HasPrefix(call, "cuFile"):
		return cuFileError(call, int(r.code), int(r.cu_err))
	}
	return cudaError(call, int(r.code))
}

// absent collects the names of a table that dlsym did not find.
func absent(symbol func(i C.int, there *C.int) *C.char) []string {
	var names []string
	for i := C.int(0); ; i++ {
		var there C.int
		name := symbol(i, &there)
		if name == nil {
			return names
		}
		if there == 0 {
			names = append(names, C.GoString(name))
		}
	}
}
