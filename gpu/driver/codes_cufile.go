package driver

// Bounds of CUfileOpError: CUFILEOP_BASE_ERR is 5000; the end leaves room for
// codes of newer versions, which are reported by number.
const (
	cuFileBase      = 5000
	cuFileEnd       = 6000
	cuFileCUDAError = 5011
	cuFileInternal  = 5030
)

const (
	adviceNoNvfs  = "the nvidia-fs kernel module is not loaded (modprobe nvidia-fs), or peer-to-peer DMA is not set up; the host path is used"
	adviceHost    = "the host path is used"
	adviceDefect  = "an argument was refused; this is a defect of the caller"
	adviceRestart = "cuFile is shutting down in this process; the host path is used until a restart"
)

// cuFileCodes are the values of CUfileOpError (cufile.h). The names of 5035 to
// 5038 are those since CUDA 12.2; in 11.x these numbers meant other things, so
// the number is always printed beside the name.
var cuFileCodes = map[int]codeInfo{
	5001: {"CU_FILE_DRIVER_NOT_INITIALIZED", adviceNoNvfs},
	5002: {"CU_FILE_DRIVER_INVALID_PROPS", "a property in cufile.json is invalid"},
	5003: {"CU_FILE_DRIVER_UNSUPPORTED_LIMIT", "a limit in cufile.json is out of range"},
	5004: {"CU_FILE_DRIVER_VERSION_MISMATCH", "nvidia-fs and libcufile are of different versions; install both from one release"},
	5005: {"CU_FILE_DRIVER_VERSION_READ_ERROR", "/proc/driver/nvidia-fs/version cannot be read; is it visible in the container?"},
	5006: {"CU_FILE_DRIVER_CLOSING", adviceRestart},
	5007: {"CU_FILE_PLATFORM_NOT_SUPPORTED", "GPUDirect Storage does not run on this platform; " + adviceHost},
	5008: {"CU_FILE_IO_NOT_SUPPORTED", "the file system or its device cannot do direct storage I/O (ext4 needs data=ordered among its mount options, NVMe a supported driver); " + adviceHost},
	5009: {"CU_FILE_DEVICE_NOT_SUPPORTED", "this GPU cannot do direct storage I/O; " + adviceHost},
	5010: {"CU_FILE_NVFS_DRIVER_ERROR", "the nvidia-fs kernel module refused; look at the kernel log"},
	5011: {"CU_FILE_CUDA_DRIVER_ERROR", "see the CUDA error beside it"},
	5012: {"CU_FILE_CUDA_POINTER_INVALID", "the address is not device memory; this is a defect of the caller"},
	5013: {"CU_FILE_CUDA_MEMORY_TYPE_INVALID", "the memory is managed or host memory; cuMemAlloc memory is needed"},
	5014: {"CU_FILE_CUDA_POINTER_RANGE_ERROR", "the range leaves the allocation; this is a defect of the caller"},
	5015: {"CU_FILE_CUDA_CONTEXT_MISMATCH", "the memory belongs to another context"},
	5016: {"CU_FILE_INVALID_MAPPING_SIZE", "the buffer's size is not what cuFile can map; use multiples of 4 KiB"},
	5017: {"CU_FILE_INVALID_MAPPING_RANGE", "the read leaves the registered buffer; this is a defect of the caller"},
	5018: {"CU_FILE_INVALID_FILE_TYPE", "only regular files (and some block devices) can be registered"},
	5019: {"CU_FILE_INVALID_FILE_OPEN_FLAG", "the file is open with a flag that cuFile refuses (O_APPEND, O_NOFOLLOW, O_NOATIME, O_TMPFILE); open it again without"},
	5020: {"CU_FILE_DIO_NOT_SET", "the file is not open with O_DIRECT"},
	5022: {"CU_FILE_INVALID_VALUE", adviceDefect},
	5023: {"CU_FILE_MEMORY_ALREADY_REGISTERED", "the buffer is registered already"},
	5024: {"CU_FILE_MEMORY_NOT_REGISTERED", "the buffer is not registered"},
	5025: {"CU_FILE_PERMISSION_DENIED", "the file or a device node is not readable for this user"},
	5026: {"CU_FILE_DRIVER_ALREADY_OPEN", "another library of this process has opened cuFile already; its settings stand, read them back"},
	5027: {"CU_FILE_HANDLE_NOT_REGISTERED", "the file could not be registered (as when nvidia-fs is missing); nothing was read: " + adviceHost},
	5028: {"CU_FILE_HANDLE_ALREADY_REGISTERED", "the file descriptor is registered already"},
	5029: {"CU_FILE_DEVICE_NOT_FOUND", "cuFile does not find the GPU or the storage device; is /run/udev visible in the container?"},
	5030: {"CU_FILE_INTERNAL_ERROR", "libcufile failed within itself; " + adviceHost},
	5031: {"CU_FILE_GETNEWFD_FAILED", "no file descriptor could be had; raise RLIMIT_NOFILE"},
	5033: {"CU_FILE_NVFS_SETUP_ERROR", "nvidia-fs could not be set up; look at the kernel log"},
	5034: {"CU_FILE_IO_DISABLED", "cuFile's configuration disables I/O for this file"},
	5035: {"CU_FILE_BATCH_SUBMIT_FAILED", adviceHost},
	5036: {"CU_FILE_GPU_MEMORY_PINNING_FAILED", "the GPU's memory could not be pinned; BAR1 may be full: register smaller buffers"},
	5037: {"CU_FILE_BATCH_FULL", adviceHost},
	5038: {"CU_FILE_ASYNC_NOT_SUPPORTED", adviceHost},
	5039: {"CU_FILE_INTERNAL_BATCH_SETUP_ERROR", adviceHost},
	5040: {"CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR", adviceHost},
	5041: {"CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR", adviceHost},
	5042: {"CU_FILE_INTERNAL_BATCH_CANCEL_ERROR", adviceHost},
	5043: {"CU_FILE_NOMEM_ERROR", "host memory ran out within libcufile"},
	5044: {"CU_FILE_IO_ERROR", "the read failed on the device; look at the kernel log"},
	5045: {"CU_FILE_INTERNAL_BUF_REGISTER_ERROR", "cuFile could not register its own buffers; " + adviceHost},
	5046: {"CU_FILE_HASH_OPR_ERROR", "libcufile failed within itself; " + adviceHost},
	5047: {"CU_FILE_INVALID_CONTEXT_ERROR", "no valid context was current"},
	5048: {"CU_FILE_NVFS_INTERNAL_DRIVER_ERROR", "the nvidia-fs kernel module failed; look at the kernel log"},
	5049: {"CU_FILE_BATCH_NOCOMPAT_ERROR", adviceHost},
}
