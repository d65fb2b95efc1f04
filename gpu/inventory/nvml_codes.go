package inventory

import "fmt"

// nvmlNames are those of nvmlReturn_t (nvml.h). The library has a function for
// them, which old libraries lack; a program that called it would end.
var nvmlNames = map[int]string{
	0:   "SUCCESS",
	1:   "ERROR_UNINITIALIZED",
	2:   "ERROR_INVALID_ARGUMENT",
	3:   "ERROR_NOT_SUPPORTED",
	4:   "ERROR_NO_PERMISSION",
	5:   "ERROR_ALREADY_INITIALIZED",
	6:   "ERROR_NOT_FOUND",
	7:   "ERROR_INSUFFICIENT_SIZE",
	8:   "ERROR_INSUFFICIENT_POWER",
	9:   "ERROR_DRIVER_NOT_LOADED",
	10:  "ERROR_TIMEOUT",
	11:  "ERROR_IRQ_ISSUE",
	12:  "ERROR_LIBRARY_NOT_FOUND",
	13:  "ERROR_FUNCTION_NOT_FOUND",
	14:  "ERROR_CORRUPTED_INFOROM",
	15:  "ERROR_GPU_IS_LOST",
	16:  "ERROR_RESET_REQUIRED",
	17:  "ERROR_OPERATING_SYSTEM",
	18:  "ERROR_LIB_RM_VERSION_MISMATCH",
	19:  "ERROR_IN_USE",
	20:  "ERROR_MEMORY",
	21:  "ERROR_NO_DATA",
	22:  "ERROR_VGPU_ECC_NOT_SUPPORTED",
	23:  "ERROR_INSUFFICIENT_RESOURCES",
	24:  "ERROR_FREQ_NOT_SUPPORTED",
	25:  "ERROR_ARGUMENT_VERSION_MISMATCH",
	26:  "ERROR_DEPRECATED",
	27:  "ERROR_NOT_READY",
	28:  "ERROR_GPU_NOT_FOUND",
	29:  "ERROR_INVALID_STATE",
	30:  "ERROR_RESET_TYPE_NOT_SUPPORTED",
	999: "ERROR_UNKNOWN",
}

// nvmlAdvice says what an operator can do about a code.
var nvmlAdvice = map[int]string{
	4:  "run as a user who may open /dev/nvidiactl",
	9:  "load NVIDIA's kernel module (modprobe nvidia)",
	15: "the GPU fell off the bus: reset it or reboot",
	16: "reset the GPU (nvidia-smi --gpu-reset)",
	18: "the library and the kernel module are of different drivers: reload the module or reboot",
}

func nvmlName(code int) string {
	if name, ok := nvmlNames[code]; ok {
		return name
	}
	return fmt.Sprintf("code %d", code)
}

// nvmlError is a call that failed.
type nvmlError struct {
	call string
	code int
}

func (e *nvmlError) Error() string {
	text := fmt.Sprintf("%s: %s (%d)", e.call, nvmlName(e.code), e.code)
	if advice := nvmlAdvice[e.code]; advice != "" {
		text += ": " + advice
	}
	return text
}
