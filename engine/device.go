package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/sealstone/sealstone/tiers/disk"
)

// ErrDevice: the device or the file system failed in what Open has to read or
// write. That is no damage: nothing is given up for it, and once it works again
// the store opens with all its blocks.
var ErrDevice = errors.New("engine: the device or the file system failed")

// deviceError gives an error of the device that ended an Open its meaning, and
// says what to do if it stays. Others pass as they are.
func deviceError(err error) error {
	var errno syscall.Errno
	if err == nil || errors.Is(err, ErrDevice) || !errors.As(err, &errno) || !slices.Contains(deviceErrnos, errno) {
		return err
	}
	return fmt.Errorf("%w: %w; nothing was given up: open the store again, and if the error stays, %s", ErrDevice, err, deviceAdvice(err))
}

// deviceAdvice says how to go on without a file. Log and index are rebuilt
// from the segments, and the blocks of a segment are misses without it.
func deviceAdvice(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		dir := path.Base(path.Dir(filepath.ToSlash(p.Path)))
		switch ext := path.Ext(p.Path); {
		case ext == ".seg" || ext == ".del":
			return fmt.Sprintf("move %s out of the directory, .seg and .del together: its blocks are misses then", p.Path)
		case dir == logDir:
			return fmt.Sprintf("move %s out of the directory: the index is rebuilt from the segments then", p.Path)
		case dir == indexDir:
			return "move " + indexDir + "/ out of the directory: it is rebuilt from the segments then"
		}
	}
	return "see what the system's log says of the device"
}

// deviceFailed reports whether the bytes of an extent could not be read, as
// against read and found bad: what is decided on them must wait.
func deviceFailed(err error) bool {
	return err != nil && !errors.Is(err, disk.ErrCorrupt) && !errors.Is(err, disk.ErrUnsupported) && !errors.Is(err, disk.ErrNoSegment)
}
