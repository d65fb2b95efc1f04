package gpu

import (
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/gpu/driver"
)

// ErrNotStrict says that cuFile may read through host memory in this process
// without saying so, or that it cannot be asked whether it may.
var ErrNotStrict = errors.New("gpu: cuFile is not in its strict mode")

// strictSetting is a setting of cuFile that must be off.
type strictSetting struct {
	number driver.BoolParameter
	name   string // in cufile.json
	// late settings came after CUDA 12.9: a library that does not know one
	// (5022) does not do what it allows.
	late bool
}

// strictSettings are those that let cuFile take a way through host memory by
// itself (cuFile API Reference Guide, configuration parameters).
var strictSettings = []strictSetting{
	{driver.AllowCompatMode, "properties.allow_compat_mode", false},
	{driver.ForceCompatMode, "properties.force_compat_mode", false},
	{driver.PosixIOMode, "properties.vanilla_posix_io_mode", true},
	{driver.FallbackIO, "properties.gds_fallback_io", true},
}

// Codes of cuFile that are answers here.
const (
	cuFileUnknownSetting = 5022
	cuFileOpenAlready    = 5026
)

// cuFileSettings is what OpenStrict uses of [driver.CuFile].
type cuFileSettings interface {
	DriverOpen(*driver.Context) error
	Parameter(driver.BoolParameter) (bool, error)
	SetParameter(driver.BoolParameter, bool) error
	SetStringParameter(driver.StringParameter, string) error
}

// OpenStrict opens cuFile in this process such that it reads by a direct path
// or fails, and reads back whether that is so. cuFile's settings belong to the
// whole process: where another library opened it before, they are that
// library's, and only the reading back tells. So an ErrNotStrict may well be
// the doing of the host application. The directory logDir, which must exist,
// is where cuFile keeps its log; without one cuFile would put it into the
// working directory of the host.
//
// The caller closes cuFile where OpenStrict opened it and where it fails with
// ErrNotStrict; a failed DriverOpen leaves nothing to close.
func OpenStrict(f cuFileSettings, c *driver.Context, logDir string) error {
	for _, s := range strictSettings {
		if err := f.SetParameter(s.number, false); !s.maySetFail(err) {
			return fmt.Errorf("%w: %s cannot be set: %w", ErrNotStrict, s.name, err)
		}
	}
	if err := f.SetStringParameter(driver.LogDir, logDir); err != nil && !isCuFile(err, cuFileOpenAlready) {
		return fmt.Errorf("gpu: cuFile would write its log into the working directory: logging.dir cannot be set: %w", err)
	}
	if err := f.DriverOpen(c); err != nil && !isCuFile(err, cuFileOpenAlready) {
		return fmt.Errorf("gpu: open cuFile: %w", err)
	}
	return CheckStrict(f)
}

// CheckStrict reads back what OpenStrict set. It holds only once cuFile is
// open: before that cuFile answers what was asked for.
func CheckStrict(f cuFileSettings) error {
	for _, s := range strictSettings {
		on, err := f.Parameter(s.number)
		switch {
		case s.late && isCuFile(err, cuFileUnknownSetting):
		case err != nil:
			return fmt.Errorf("%w: %s cannot be read back (cuFile of CUDA 12.9 and newer can): %w", ErrNotStrict, s.name, err)
		case on:
			return fmt.Errorf("%w: %s is on in this process; turn it off in cufile.json, or in the library that opened cuFile first", ErrNotStrict, s.name)
		}
	}
	return nil
}

// maySetFail says whether an answer to setting it leaves the decision to the
// reading back.
func (s strictSetting) maySetFail(err error) bool {
	return err == nil || isCuFile(err, cuFileOpenAlready) || s.late && isCuFile(err, cuFileUnknownSetting)
}

// isCuFile says whether err is this code of cuFile.
func isCuFile(err error, code int) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Domain == driver.DomainCuFile && e.Code == code
}
