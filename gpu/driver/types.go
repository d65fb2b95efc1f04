package driver

// DevicePtr is an address in device memory, CUdeviceptr. It means nothing to the
// CPU.
type DevicePtr uint64

// Stream is a CUstream of one context: work that runs in order. 0 is the default
// stream.
type Stream uintptr

// Event is a CUevent of one context: a mark in a stream.
type Event uintptr

// Module is a CUmodule of one context: a loaded kernel file.
type Module uintptr

// Function is a CUfunction of one context: a kernel.
type Function uintptr

// Options name the libraries. They are given to dlopen as they are: a bare name
// is searched for as the system does.
type Options struct {
	CUDAPath   string // "" is libcuda.so.1
	CuFilePath string // "" is libcufile.so.0
}

// Default names: the SONAMEs, not the links that only a toolkit installs.
const (
	defaultCUDA   = "libcuda.so.1"
	defaultCuFile = "libcufile.so.0"
)

func (o Options) cuda() string {
	if o.CUDAPath == "" {
		return defaultCUDA
	}
	return o.CUDAPath
}

func (o Options) cuFile() string {
	if o.CuFilePath == "" {
		return defaultCuFile
	}
	return o.CuFilePath
}

// DeviceInfo describes a device as CUDA sees it. Ordinals depend on
// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER; the UUID does not.
type DeviceInfo struct {
	Ordinal    int
	UUID       [16]byte // of the GPU, or of the MIG instance
	Name       string
	PCIBusID   string // as in sysfs: 0000:17:00.0
	TotalBytes int64
	Major      int // compute capability
	Minor      int
	Attributes Attributes
}

// Attributes are those of cuDeviceGetAttribute that decide which way bytes may
// take. An attribute that the driver does not know reads as zero or false.
type Attributes struct {
	Integrated             bool // shares memory with the CPU
	UnifiedAddressing      bool
	HostRegisterSupported  bool
	GPUDirectRDMASupported bool
	FlushWritesOptions     int // bits: 1 from the host, 2 by memory operations
	WritesOrdering         int // 0 none, 100 to the owner, 200 to all devices
}

// FlushHost is the bit of [Attributes.FlushWritesOptions] that says that
// [Context.FlushWrites] works.
const FlushHost = 1

// OrderingOwner is the least [Attributes.WritesOrdering] at which writes of
// other devices into this device's memory are seen by its later kernels without
// FlushWrites.
const OrderingOwner = 100

// Handle is a file registered with cuFile.
type Handle uintptr

// LaunchParamMax is the largest kernel parameter of [Context.Launch] in bytes:
// the limit of CUDA before 12.1, which all devices keep.
const LaunchParamMax = 4096
