package canary

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/driver"
)

// finding is why a pair is refused.
type finding struct {
	code   int    // of the call that failed, or 0
	name   string // of that code, or one of the words below
	reason string // for people
}

// Names of findings that are no failed call.
const (
	nameShortRead  = "short-read"
	nameStale      = "stale"
	nameHalfLanded = "half-landed"
	nameMisplaced  = "misplaced"
	nameOldBytes   = "old-bytes"
	nameWrongBytes = "wrong-bytes"
	nameLate       = "late"
	nameOwner      = "owner-sees-other-bytes"
	nameKernel     = "kernel-gave-no-answer"
	nameGuard      = "guard-touched"
	nameSlot       = "slot-touched"
	nameNeighbour  = "neighbour-touched"
	nameHostRoute  = "host-route"
	nameNoRoute    = "no-direct-route"
	nameNoCounters = "no-counters"

	nameNoUdev      = "no-udev"
	nameWSL         = "wsl"
	nameNoLibrary   = "no-library"
	nameOldLibrary  = "old-library"
	nameNoGPU       = "no-gpu"
	nameNoOrder     = "no-order"
	nameCompatMode  = "compat-mode"
	nameHoles       = "file-with-holes"
	nameMemory      = "memory"
	nameFailed      = "failed"
	nameInterrupted = "interrupted"

	nameVM        = "virtual-machine"
	nameNoProgram = "no-probe-program"
	nameHung      = "hung"
	nameTooMany   = "too-many-hung"
	nameDied      = "child-died"
	nameAnswer    = "bad-answer"
	nameChanged   = "changed-meanwhile"
	nameKey       = "unknown-place"
)

// lateNames are those of findings that bytes on their way would give.
var lateNames = map[string]bool{nameStale: true, nameHalfLanded: true, nameOwner: true}

// found makes a finding that no failed call stands behind.
func found(name, format string, args ...any) *finding {
	return &finding{name: name, reason: fmt.Sprintf(format, args...)}
}

// whose takes out which package an error is of: that is for programmers.
var whose = strings.NewReplacer("driver: ", "", "gpu: ", "", "kernel: ", "")

// failed makes the finding of an error: the code and name of the call, if one
// is in it.
func failed(doing string, err error) *finding {
	f := &finding{name: nameFailed, reason: doing + ": " + whose.Replace(err.Error())}
	var call *driver.Error
	var errno syscall.Errno
	switch {
	case errors.As(err, &call) && !errors.Is(err, gpu.ErrNotStrict):
		f.code, f.name = call.Code, call.Name
	case errors.Is(err, gpu.ErrNotStrict):
		f.name = nameCompatMode
	case errors.Is(err, driver.ErrMissingSymbol):
		f.name = nameOldLibrary
	case errors.Is(err, driver.ErrUnavailable):
		f.name = nameNoLibrary
	case errors.As(err, &errno):
		f.code, f.name = int(errno), errnoName(errno)
	}
	if f.name == "" {
		f.name = nameFailed
	}
	return f
}
