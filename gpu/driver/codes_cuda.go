package driver

// codeInfo is what a number means and what an operator does about it.
type codeInfo struct{ name, advice string }

const adviceLost = "the context is dead; stop using this GPU, and restart the process to get it back"

// cudaCodes are the values of CUresult that the functions used here may return
// (cuda.h, CUDA 11.4 to 13.2).
var cudaCodes = map[int]codeInfo{
	1:   {"CUDA_ERROR_INVALID_VALUE", "an argument was refused; this is a defect of the caller"},
	2:   {"CUDA_ERROR_OUT_OF_MEMORY", "give the inference engine less of the GPU's memory, or set smaller staging buffers"},
	3:   {"CUDA_ERROR_NOT_INITIALIZED", "cuInit did not run or failed"},
	4:   {"CUDA_ERROR_DEINITIALIZED", adviceLost},
	34:  {"CUDA_ERROR_STUB_LIBRARY", "the toolkit's stub libcuda was loaded; take its directory out of the library path"},
	46:  {"CUDA_ERROR_DEVICE_UNAVAILABLE", "another process holds the GPU exclusively"},
	100: {"CUDA_ERROR_NO_DEVICE", "no GPU is visible; look at CUDA_VISIBLE_DEVICES and at the container's devices"},
	101: {"CUDA_ERROR_INVALID_DEVICE", "there is no GPU of that ordinal"},
	200: {"CUDA_ERROR_INVALID_IMAGE", "the kernel was refused; sums are taken on the CPU"},
	201: {"CUDA_ERROR_INVALID_CONTEXT", "no valid context was current; this is a defect of the caller, or the context was destroyed"},
	209: {"CUDA_ERROR_NO_BINARY_FOR_GPU", "the kernel does not fit this GPU; sums are taken on the CPU"},
	214: {"CUDA_ERROR_ECC_UNCORRECTABLE", adviceLost},
	217: {"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "these GPUs cannot reach each other"},
	218: {"CUDA_ERROR_INVALID_PTX", "the PTX was refused; sums are taken on the CPU"},
	220: {"CUDA_ERROR_NVLINK_UNCORRECTABLE", adviceLost},
	221: {"CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "libnvidia-ptxjitcompiler.so.1 is missing; give the container the driver capability compute"},
	222: {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the driver is older than the PTX; update the driver"},
	223: {"CUDA_ERROR_JIT_COMPILATION_DISABLED", "unset CUDA_DISABLE_PTX_JIT"},
	304: {"CUDA_ERROR_OPERATING_SYSTEM", "the system refused; look at the kernel log"},
	400: {"CUDA_ERROR_INVALID_HANDLE", "a stream, event or function is of another context or gone; this is a defect of the caller"},
	401: {"CUDA_ERROR_ILLEGAL_STATE", "the resource is not in a state for this call"},
	500: {"CUDA_ERROR_NOT_FOUND", "the name is not in the module"},
	600: {"CUDA_ERROR_NOT_READY", "the work has not ended yet; ask again"},
	700: {"CUDA_ERROR_ILLEGAL_ADDRESS", adviceLost},
	701: {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "the kernel needs more registers or threads than the GPU has"},
	702: {"CUDA_ERROR_LAUNCH_TIMEOUT", adviceLost},
	704: {"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", ""},
	705: {"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", ""},
	708: {"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "the host application set up the context already; its flags stand"},
	709: {"CUDA_ERROR_CONTEXT_IS_DESTROYED", adviceLost},
	710: {"CUDA_ERROR_ASSERT", adviceLost},
	711: {"CUDA_ERROR_TOO_MANY_PEERS", ""},
	712: {"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "the memory, or a part of it, is pinned already"},
	713: {"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "the memory is not pinned"},
	714: {"CUDA_ERROR_HARDWARE_STACK_ERROR", adviceLost},
	715: {"CUDA_ERROR_ILLEGAL_INSTRUCTION", adviceLost},
	716: {"CUDA_ERROR_MISALIGNED_ADDRESS", adviceLost},
	717: {"CUDA_ERROR_INVALID_ADDRESS_SPACE", adviceLost},
	718: {"CUDA_ERROR_INVALID_PC", adviceLost},
	719: {"CUDA_ERROR_LAUNCH_FAILED", adviceLost},
	720: {"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", ""},
	800: {"CUDA_ERROR_NOT_PERMITTED", "the call is not permitted here"},
	801: {"CUDA_ERROR_NOT_SUPPORTED", "this GPU or driver does not support it"},
	802: {"CUDA_ERROR_SYSTEM_NOT_READY", "start the fabric manager"},
	803: {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "the library and the kernel module are of different versions; reboot, or reinstall the driver"},
	804: {"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "take the forward compatibility package out of the library path"},
	900: {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "a capture is under way on this thread"},
	909: {"CUDA_ERROR_TIMEOUT", ""},
	911: {"CUDA_ERROR_EXTERNAL_DEVICE", "an asynchronous error of a device outside the GPU"},
	999: {"CUDA_ERROR_UNKNOWN", "look at the kernel log for an Xid"},
}

// cudaLost says whether a CUresult tells of a dead context. The first list is of
// errors that CUDA documents as leaving the process in an inconsistent state;
// the others mean the same only once the device had been found: before that they
// say that there is none.
func cudaLost(call string, code int) bool {
	switch code {
	case 4, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719:
		return true
	case 100, 101, 999:
		return !startCalls[call]
	}
	return false
}

// startCalls run before, or while, a device is first taken.
var startCalls = map[string]bool{
	"cuInit": true, "cuDriverGetVersion": true, "cuDeviceGetCount": true, "cuDeviceGet": true,
	"cuDeviceGetName": true, "cuDeviceGetUuid_v2": true, "cuDeviceGetUuid": true, "cuDeviceGetPCIBusId": true,
	"cuDeviceTotalMem_v2": true, "cuDeviceGetAttribute": true, "cuDevicePrimaryCtxRetain": true, "cuFileDriverOpen": true,
}
