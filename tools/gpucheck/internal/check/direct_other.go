//go:build !linux

package check

import "os"

func openDirect(path string) (*os.File, error) { return os.Open(path) }
