//go:build !linux

package engine

import (
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/internal/vfs"
)

// deviceFileOf: the direct path is there on Linux only.
func deviceFileOf(vfs.File) (fd int, id gpu.FileID, ok bool) { return 0, id, false }
