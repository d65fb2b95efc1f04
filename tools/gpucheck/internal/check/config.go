package check

import (
	"time"

	"github.com/sealstone/sealstone/gpu/driver"
)

// DefaultTimeout bounds a run as a whole.
const DefaultTimeout = 7*time.Minute + 30*time.Second

// Config says what to look at.
type Config struct {
	// Dir is a directory of the file system to look at. A temporary directory
	// is made in it and removed; the default is the system's.
	Dir string
	// Libraries name libcuda and libcufile; the zero value finds them.
	Libraries driver.Options
	// Self is the command that becomes the child of a step: it must end up in
	// Child with the arguments that are appended to it.
	Self []string
	// Timeout bounds the run; 0 is DefaultTimeout.
	Timeout time.Duration
	// SizesBytes are those that kernel and copies are measured with, each a
	// multiple of 64 KiB; none is 1, 16, 64 and 256 MiB.
	SizesBytes []int64
	// MeasureFor is how long one figure is measured; 0 is 300 ms.
	MeasureFor time.Duration
	// Blocks of 1 MiB make a document of the scenarios; 0 is 64.
	Blocks int
	// DirectInVM has the canary try the direct path in a virtual machine,
	// where it may write to memory that is not its own.
	DirectInVM bool
	// Revision names the program in the report.
	Revision string
	// Progress is told of each step as it begins.
	Progress func(step string)

	grace time.Duration // 0 is the constant
}

func (c Config) withDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if len(c.SizesBytes) == 0 {
		c.SizesBytes = []int64{1 << 20, 16 << 20, 64 << 20, 256 << 20}
	}
	if c.grace == 0 {
		c.grace = grace
	}
	if c.Blocks <= 0 {
		c.Blocks = 64
	}
	if c.MeasureFor <= 0 {
		c.MeasureFor = 300 * time.Millisecond
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return c
}
