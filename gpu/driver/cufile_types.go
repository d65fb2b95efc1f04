package driver

import "encoding/binary"

// BoolParameter is one of CUFileBoolConfigParameter_t (cufile.h, CUDA 12.9).
type BoolParameter int

// Parameters that decide whether cuFile may take another way than the direct one
// without saying so. The numbers of the last two follow the order of the 13.4
// header; a library that does not know a number answers 5022.
const (
	AllowCompatMode       BoolParameter = 1
	ForceCompatMode       BoolParameter = 2
	UsePCIP2PDMA          BoolParameter = 7
	ForceODirectMode      BoolParameter = 9
	SkipTopologyDetection BoolParameter = 10
	PosixIOMode           BoolParameter = 12
	FallbackIO            BoolParameter = 13
)

// StringParameter is one of CUFileStringConfigParameter_t.
type StringParameter int

// Parameters of logging. Without LogDir, cuFile writes cufile.log into the
// working directory; see [CuFile.SetStringParameter].
const (
	LoggingLevel   StringParameter = 0
	EnvLogfilePath StringParameter = 1
	LogDir         StringParameter = 2
)

// Properties is what cuFile says of itself: CUfileDrvProps_t.
type Properties struct {
	NvfsMajor, NvfsMinor  int // of the nvidia-fs kernel module; 0.0 without one
	PollThresholdKB       int64
	MaxDirectIOKB         int64
	StatusFlags           uint32 // bits by kind of storage, see StatusNVMe
	ControlFlags          uint32 // see ControlCompat
	FeatureFlags          uint32
	MaxDeviceCacheKB      uint32
	PerBufferCacheKB      uint32
	MaxDevicePinnedKB     uint32
	MaxBatchIO            uint32
	MaxBatchTimeoutMillis uint32
}

// Bit numbers of [Properties.StatusFlags] and [Properties.ControlFlags]
// (cufile.h, CUfileDriverStatusFlags and CUfileDriverControlFlags).
const (
	StatusNVMe      = 4
	ControlPollMode = 0
	ControlCompat   = 1
)

// propertiesBytes is the size of CUfileDrvProps_t since CUDA 11.6; more is given
// to the call, for versions that add to it.
const (
	propertiesBytes = 56
	propertiesRoom  = 1024
)

// decodeProperties reads CUfileDrvProps_t. Versions before CUDA 11.6 have no
// max_batch_io_size; their last field reads as MaxBatchIO.
func decodeProperties(b []byte) Properties {
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	return Properties{
		NvfsMajor: int(u32(0)), NvfsMinor: int(u32(4)),
		PollThresholdKB: int64(binary.NativeEndian.Uint64(b[8:])),
		MaxDirectIOKB:   int64(binary.NativeEndian.Uint64(b[16:])),
		StatusFlags:     u32(24), ControlFlags: u32(28), FeatureFlags: u32(32),
		MaxDeviceCacheKB: u32(36), PerBufferCacheKB: u32(40), MaxDevicePinnedKB: u32(44),
		MaxBatchIO: u32(48), MaxBatchTimeoutMillis: u32(52),
	}
}
