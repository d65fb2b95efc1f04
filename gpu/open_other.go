//go:build !linux

package gpu

import (
	"errors"
	"fmt"
	"os"
)

func openDirect(int, FileID) (*os.File, error) {
	return nil, fmt.Errorf("gpu: direct reads are there on Linux only: %w", errors.ErrUnsupported)
}
