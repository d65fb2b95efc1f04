//go:build !linux

package client

import (
	"context"
	"errors"
	"os"
)

var errUnsupported = errors.New("client: memory is shared on Linux only")

func duplicate(int) (*os.File, error) { return nil, errUnsupported }

func newShared(int64) (*os.File, []byte, error) { return nil, nil, errUnsupported }

func unmapShared([]byte) {}

func (c *conn) doWithFile(context.Context, *command, *os.File, func(*answers) error) error {
	return errUnsupported
}
