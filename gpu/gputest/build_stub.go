//go:build !cgo || !linux

package gputest

import (
	"errors"
	"testing"

	"github.com/sealstone/sealstone/gpu/driver"
)

// available says whether this build can load the doubles.
const available = false

// loaded is nothing: this build cannot load C libraries.
type loaded struct{}

func load(t testing.TB, dir string) loaded {
	t.Helper()
	t.Fatal("gputest: no cgo")
	return loaded{}
}

func (loaded) command(text string) (string, error)    { return "", errors.New("gputest: no cgo") }
func (loaded) peek(p driver.DevicePtr, b []byte) bool { return false }
func (loaded) poke(p driver.DevicePtr, b []byte) bool { return false }
func (loaded) guard(p uint64, n int64, on bool)       {}
func (loaded) enter(device int) bool                  { return false }
func (loaded) leave(device int) bool                  { return false }
func (loaded) same(device int) bool                   { return false }
