package inventory

import "time"

// DefaultTimeout bounds all calls of NVML together. On a healthy host they
// take milliseconds to a few seconds, the first one most (the driver wakes the
// GPUs); a driver in trouble does not answer at all.
const DefaultTimeout = 20 * time.Second

// maxGPUs bounds what a library is believed to have counted. Hosts have up to
// 16; the bound keeps a wild number from a broken library out of a loop.
const maxGPUs = 64

// Options of Read. The zero value looks at this host.
type Options struct {
	// NVMLPath is the library to load; "" is libnvidia-ml.so.1. A process
	// loads one only: see Read.
	NVMLPath string
	// Root is the folder that holds sys, proc and run; "" is /. Recorded
	// trees are read through it.
	Root string
	// Timeout bounds the calls of NVML together; 0 is DefaultTimeout.
	Timeout time.Duration
	// Directories are those to look behind: which devices hold them.
	Directories []string
	// CUDA are the devices that CUDA shows in this process, in the order of
	// their ordinals.
	CUDA []CUDADevice

	// nvml stands in for the library, in tests.
	nvml func() (walker, error)
	// desk stands in for that of the process, in tests.
	desk *desk
	// stat stands in for stat(2), in tests with a recorded tree.
	stat func(dir string) (major, minor uint32, err error)
}

// CUDADevice is a device as CUDA shows it.
type CUDADevice struct {
	Ordinal      int
	UUID         [16]byte // of cuDeviceGetUuid_v2; of the instance where the GPU is split
	Name         string
	PCI          string // of cuDeviceGetPCIBusId
	MemoryBytes  int64
	ComputeMajor int
	ComputeMinor int
}

func (o Options) timeout() time.Duration {
	if o.Timeout <= 0 {
		return DefaultTimeout
	}
	return o.Timeout
}

func (o Options) root() string {
	if o.Root == "" {
		return "/"
	}
	return o.Root
}
