package driver

import (
	"fmt"
	"syscall"
)

// errnoMax is the largest number that Linux returns as an errno.
const errnoMax = 4095

// decodeRead turns what cuFileRead returned, and errno as it stood right after,
// into a count or an error. Three encodings of a failure are in the field:
//
//   - -1 with errno set, for failures of the file system (cuFile API Reference
//     Guide, cuFileRead);
//   - -1 with a cuFile code of 5001 and more in errno, as seen from released
//     versions;
//   - the negated code itself, -CUfileOpError as documented or -errno as seen in
//     traces.
//
// More bytes than wanted are no success either: whatever was counted, it was not
// this read.
func decodeRead(n int64, errno syscall.Errno, want int64) (int64, error) {
	const call = "cuFileRead"
	switch {
	case n >= 0 && n <= want:
		return n, nil
	case n > want:
		e := &Error{Call: call, Domain: DomainCuFile, Code: cuFileInternal, Name: cuFileCodes[cuFileInternal].name}
		e.Advice = fmt.Sprintf("it counted %d bytes where %d were asked for; do not trust what it read", n, want)
		return 0, e
	}
	code := -n
	if n == -1 {
		code = int64(errno)
	}
	switch {
	case code == 0:
		// -1 and no errno: a failure without a reason is still a failure.
		return 0, systemError(call, syscall.EIO)
	case code > 0 && code <= errnoMax:
		return 0, systemError(call, syscall.Errno(code))
	case code >= cuFileBase && code < cuFileEnd:
		return 0, cuFileError(call, int(code), 0)
	}
	return 0, &Error{Call: call, Domain: DomainCuFile, Code: int(code),
		Advice: "the number is in no known header; use the host path"}
}
