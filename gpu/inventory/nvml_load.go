//go:build cgo && linux

package inventory

import (
	"fmt"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const defaultNVMLPath = "libnvidia-ml.so.1"

// loaded is the one library of the process. go-nvml binds each function of it
// at its first call and for good, so a second library, or the same one after it
// was closed, would be called through the addresses of the first. It therefore
// stays open until the process ends.
var loaded struct {
	sync.Mutex
	path string
	lib  *library
}

// library is NVML as the walk uses it.
type library struct {
	api nvml.Interface
	// lookup says whether the library has a symbol. Every call asks first.
	lookup func(symbol string) error
}

// loadNVML loads the library, once, and initializes it.
func loadNVML(path string) (walker, error) {
	if path == "" {
		path = defaultNVMLPath
	}
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.lib != nil {
		if loaded.path != path {
			return nil, &absent{fmt.Sprintf("%s cannot be loaded: this process uses %s already", path, loaded.path)}
		}
		return loaded.lib.walk, nil
	}
	lib, err := openNVML(path)
	if err != nil {
		return nil, err
	}
	loaded.path, loaded.lib = path, lib
	return lib.walk, nil
}

// openNVML opens the library twice: by itself, to hear why it cannot be opened
// and to look up what go-nvml calls without asking, and then through go-nvml.
func openNVML(path string) (*library, error) {
	raw := dl.New(path, dl.RTLD_LAZY|dl.RTLD_LOCAL)
	if err := raw.Open(); err != nil {
		return nil, &absent{err.Error()}
	}
	lib := &library{api: nvml.New(nvml.WithLibraryPath(path)), lookup: raw.Lookup}
	if err := lib.init(); err != nil {
		return nil, err
	}
	return lib, nil
}

// init initializes the library. Symbols of versions are looked up in go-nvml's
// order: it calls the newest that is there.
func (l *library) init() error {
	if !l.has("nvmlInit_v2", "nvmlInit") {
		return &absent{"it has no function nvmlInit: it is no NVML"}
	}
	if ret := l.api.Init(); ret != nvml.SUCCESS {
		return &nvmlError{"nvmlInit", int(ret)}
	}
	return nil
}

// has is true if one of the symbols is there.
func (l *library) has(symbols ...string) bool {
	for _, s := range symbols {
		if l.lookup(s) == nil {
			return true
		}
	}
	return false
}
