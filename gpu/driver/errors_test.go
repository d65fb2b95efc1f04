package driver

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestOpenWithoutLibrary holds on every build: no library is no crash.
func TestOpenWithoutLibrary(t *testing.T) {
	d, err := Open(Options{CUDAPath: "libcuda-that-is-not-there.so"})
	if d != nil || !errors.Is(err, ErrUnavailable) {
		t.Fatalf("Open = %v, %v; want ErrUnavailable", d, err)
	}
	t.Log(err)
}

func TestDecodeRead(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int64
		errno  syscall.Errno
		got    int64
		domain Domain
		code   int
	}{
		{"all", 4096, 0, 4096, 0, 0},
		{"errno is left over from before", 4096, syscall.EIO, 4096, 0, 0},
		{"short", 100, 0, 100, 0, 0},
		{"nothing", 0, 0, 0, 0, 0},
		{"too much", 4097, 0, 0, DomainCuFile, 5030},
		{"-1 and EIO", -1, syscall.EIO, 0, DomainSystem, int(syscall.EIO)},
		{"-1 and a cuFile code", -1, 5027, 0, DomainCuFile, 5027},
		{"-1 and nothing", -1, 0, 0, DomainSystem, int(syscall.EIO)},
		{"negated code", -5010, 0, 0, DomainCuFile, 5010},
		{"negated errno", -5, 0, 0, DomainSystem, int(syscall.EIO)},
		{"negated errno, errno set too", -22, syscall.EIO, 0, DomainSystem, int(syscall.EINVAL)},
		{"unknown", -70000, 0, 0, DomainCuFile, 70000},
		{"the smallest", -1 << 63, 0, 0, DomainCuFile, -1 << 63},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := decodeRead(c.n, c.errno, 4096)
			if c.code == 0 {
				if err != nil || got != c.got {
					t.Fatalf("got %d, %v; want %d", got, err, c.got)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Domain != c.domain || e.Code != c.code || got != 0 {
				t.Fatalf("got %d, %+v; want %v %d", got, err, c.domain, c.code)
			}
		})
	}
}

// TestCodes: each number has a name of its library's form and says what to do,
// and its text carries all of it.
func TestCodes(t *testing.T) {
	unused := map[int]bool{5021: true, 5032: true} // of CUfileOpError
	for n := 5001; n <= 5049; n++ {
		c, ok := cuFileCodes[n]
		if ok == unused[n] {
			t.Errorf("cuFile code %d: known %v", n, ok)
			continue
		}
		if ok && (!strings.HasPrefix(c.name, "CU_FILE_") || c.advice == "") {
			t.Errorf("cuFile code %d is %+v", n, c)
		}
	}
	for n, c := range cudaCodes {
		if !strings.HasPrefix(c.name, "CUDA_ERROR_") {
			t.Errorf("CUDA code %d is %+v", n, c)
		}
		err := cudaError("cuMemAlloc_v2", n)
		for _, want := range []string{"cuMemAlloc_v2", strconv.Itoa(n), c.name} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
	}
	names := map[string]int{}
	for _, codes := range []map[int]codeInfo{cuFileCodes, cudaCodes} {
		for n, c := range codes {
			if other, twice := names[c.name]; twice {
				t.Errorf("%d and %d are both %s", n, other, c.name)
			}
			names[c.name] = n
		}
	}
}

func TestErrorText(t *testing.T) {
	for want, err := range map[string]error{
		"driver: cuFileHandleRegister: cuFile error 5027 (CU_FILE_HANDLE_NOT_REGISTERED): ":                                                     cuFileError("cuFileHandleRegister", 5027, 0),
		"driver: cuFileBufRegister: cuFile error 5011 (CU_FILE_CUDA_DRIVER_ERROR), CUDA error 2 (CUDA_ERROR_OUT_OF_MEMORY): give the inference": cuFileError("cuFileBufRegister", 5011, 2),
		"driver: cuFileRead: errno 5 (input/output error): the device failed":                                                                   systemError("cuFileRead", syscall.EIO),
		"driver: cuFileRead: cuFile error 5123":                                                                                                 cuFileError("cuFileRead", 5123, 0),
		"driver: cuInit: CUDA error 12345":                                                                                                      cudaError("cuInit", 12345),
		"driver: cuFileRead: cuFile error 5010 (CU_FILE_NVFS_DRIVER_ERROR): ":                                                                   cuFileError("cuFileRead", -5010, 77),
		"driver: cuFileBufRegister: errno 22 (invalid argument): ":                                                                              cuFileError("cuFileBufRegister", -22, 0),
		"driver: function missing in the installed library: cuFileGetVersion":                                                                   missing("cuFileGetVersion"),
	} {
		if !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got  %q\nwant %q...", err, want)
		}
	}
	if err := cuFileError("cuFileDriverOpen", 0, 719); err != nil {
		t.Errorf("success with a CUDA code beside it: %v", err)
	}
	if got := []string{DomainCUDA.String(), DomainCuFile.String(), DomainSystem.String(), Domain(9).String()}; !slices.Equal(got, []string{"CUDA", "cuFile", "system", "Domain(9)"}) {
		t.Errorf("domains are %q", got)
	}
}

func TestErrorMatches(t *testing.T) {
	for _, c := range []struct {
		err    error
		target error
		want   bool
	}{
		{cudaError("cuStreamSynchronize", 719), ErrDeviceLost, true},
		{cudaError("cuInit", 719), ErrDeviceLost, true},
		{cudaError("cuInit", 100), ErrDeviceLost, false},
		{cudaError("cuDeviceGetCount", 999), ErrDeviceLost, false},
		{cudaError("cuMemAlloc_v2", 100), ErrDeviceLost, true},
		{cudaError("cuMemAlloc_v2", 101), ErrDeviceLost, true},
		{cudaError("cuEventQuery", 999), ErrDeviceLost, true},
		{cudaError("cuMemAlloc_v2", 4), ErrDeviceLost, true},
		{cudaError("cuMemAlloc_v2", 709), ErrDeviceLost, true},
		{cudaError("cuMemAlloc_v2", 2), ErrDeviceLost, false},
		{cudaError("cuCtxPushCurrent_v2", 201), ErrDeviceLost, false},
		{cuFileError("cuFileBufRegister", 5011, 700), ErrDeviceLost, true},
		{cuFileError("cuFileBufRegister", 5011, 2), ErrDeviceLost, false},
		{cuFileError("cuFileBufRegister", 5030, 700), ErrDeviceLost, false},
		{systemError("cuFileRead", syscall.ENOMEM), syscall.ENOMEM, true},
		{systemError("cuFileRead", syscall.ENOMEM), ErrDeviceLost, false},
		{cuFileError("cuFileRead", 5030, 0), syscall.EIO, false},
		{&Error{Domain: DomainCUDA, Code: 700}, ErrDeviceLost, true},
		{missing("cuMemAlloc_v2"), ErrMissingSymbol, true},
	} {
		if got := errors.Is(c.err, c.target); got != c.want {
			t.Errorf("%v is %v: %v, want %v", c.err, c.target, got, c.want)
		}
	}
	for code := range cudaCodes {
		lost := cudaLost("cuMemAlloc_v2", code)
		if advised := strings.Contains(cudaError("cuMemAlloc_v2", code).Error(), adviceLost); advised != lost {
			t.Errorf("CUDA code %d: lost %v, said so %v", code, lost, advised)
		}
	}
}

// FuzzDecodeRead: a result is a count within what was wanted or an error with a
// number, never both.
func FuzzDecodeRead(f *testing.F) {
	for _, n := range []int64{0, 1, 4096, 4097, -1, -5, -5027, -4096, -6000, -1 << 63} {
		for _, errno := range []int{0, 5, 5027, 6000, -1} {
			f.Add(n, errno, int64(4096))
		}
	}
	f.Fuzz(func(t *testing.T, n int64, errno int, want int64) {
		if want < 0 {
			return
		}
		got, err := decodeRead(n, syscall.Errno(errno), want)
		if err == nil {
			if got != n || got < 0 || got > want {
				t.Fatalf("%d of %d decoded as %d", n, want, got)
			}
			return
		}
		var e *Error
		if !errors.As(err, &e) || e.Code == 0 || e.Call == "" || got != 0 {
			t.Fatalf("%d, errno %d: %d, %+v", n, errno, got, err)
		}
		if n >= 0 && n <= want {
			t.Fatalf("%d of %d bytes became the error %v", n, want, err)
		}
		if err.Error() == "" {
			t.Fatal("no text")
		}
	})
}
