package canary

import (
	"fmt"
	"path/filepath"
	"time"
)

// The bounds of a canary, and what they are when not set.
const (
	// DefaultTimeout bounds a canary as a whole.
	DefaultTimeout = 60 * time.Second
	// DefaultIOBytesMax is the largest read that is tried: as large as the
	// largest one of package gpu, whose landing slots are no larger.
	DefaultIOBytesMax = 16 << 20
	// MinIOBytesMax and MaxIOBytesMax bound IOBytesMax.
	MinIOBytesMax = 128 << 10
	MaxIOBytesMax = 64 << 20
)

// Pair names a GPU and a directory.
type Pair struct {
	GPU string // UUID
	Dir string // as given to Probe; both are made absolute before they are compared
}

// VM is what is known about running in a virtual machine.
type VM struct {
	Virtual bool
	Reasons []string // the signs that were seen, for people
}

// Options sets up a [Prober]. The zero value is usable where a program that
// can be the child is found.
type Options struct {
	// Program is the command that becomes the child: it must end up in
	// [Child]. Empty is "FILE gpu-canary", where FILE is the running
	// executable if it is called sealstone, else sealstone from PATH.
	Program []string
	// Env is added to the environment of the child. For tests.
	Env []string
	// CUDAPath and CuFilePath name the libraries; empty are the names that
	// NVIDIA gives them.
	CUDAPath, CuFilePath string
	// Timeout bounds a canary as a whole; 0 is DefaultTimeout.
	Timeout time.Duration
	// IOBytesMax is the largest read that is tried, a multiple of 64 KiB; 0
	// is DefaultIOBytesMax.
	IOBytesMax int64
	// CacheDir, if not empty, keeps verdicts over restarts in this
	// directory, which is made if it is absent.
	CacheDir string
	// Fresh tries again even where a verdict is known. A pair whose canary
	// hung stays refused for the life of the process all the same.
	Fresh bool
	// VM tells whether this is a virtual machine; nil looks for the signs
	// that need no driver.
	VM *VM
	// Allow lists the pairs that are tried in a virtual machine.
	Allow []Pair
	// Uncounted lets a path pass whose route no counter shows: those of
	// libcufile exist since CUDA 13.0. The strict mode then is the only sign
	// that the reads did not go through host memory.
	Uncounted bool
	// Root is read in place of "/" where signs of a virtual machine, udev, the
	// kernel modules and cufile.json are looked for. For tests.
	Root string
}

func (o Options) withDefaults() (Options, error) {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.IOBytesMax == 0 {
		o.IOBytesMax = DefaultIOBytesMax
	}
	if o.Timeout < 0 {
		return o, fmt.Errorf("canary: Timeout is %v, want more than 0", o.Timeout)
	}
	if o.IOBytesMax < MinIOBytesMax || o.IOBytesMax > MaxIOBytesMax || o.IOBytesMax%pieceBytes != 0 {
		return o, fmt.Errorf("canary: IOBytesMax is %d, want a multiple of %d from %d to %d",
			o.IOBytesMax, pieceBytes, MinIOBytesMax, MaxIOBytesMax)
	}
	for _, p := range o.Allow {
		if p.GPU == "" || p.Dir == "" {
			return o, fmt.Errorf("canary: Allow has a pair without a GPU or a directory: %+v", p)
		}
	}
	return o, nil
}

// allows says whether the operator lets this pair be tried in a virtual
// machine.
func (o Options) allows(uuid, dir string) bool {
	for _, p := range o.Allow {
		if allowed, err := filepath.Abs(p.Dir); err == nil && p.GPU == uuid && allowed == dir {
			return true
		}
	}
	return false
}

// pieceBytes is what the kernel verifies at a time, and the size of the guard
// zones: 64 KiB, also the size of a GPU's page towards its bus.
const pieceBytes = 64 << 10
