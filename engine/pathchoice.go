package engine

import (
	"fmt"
	"strings"

	"github.com/sealstone/sealstone/tiers/disk"
)

// PathChoice says which way the bytes of blocks take between memory and disk.
type PathChoice string

// The choices. All but PathAuto force a path: Open fails with ErrPathRefused
// where a probe of the directory does not prove it.
const (
	// PathAuto takes the proven path that was measured to be fastest.
	PathAuto PathChoice = "auto"
	// PathUring is io_uring past the page cache.
	PathUring = PathChoice(disk.PathUring)
	// PathPread is pread(2) and pwrite(2) past the page cache.
	PathPread = PathChoice(disk.PathPread)
	// PathBuffered goes through the page cache.
	PathBuffered = PathChoice(disk.PathBuffered)
)

// PathChoices returns all choices.
func PathChoices() []PathChoice {
	return []PathChoice{PathAuto, PathUring, PathPread, PathBuffered}
}

// ParsePath checks the name of a choice; an empty one is PathAuto. The error
// is ErrInvalid and lists the names.
func ParsePath(name string) (PathChoice, error) {
	if name == "" {
		return PathAuto, nil
	}
	var names []string
	for _, c := range PathChoices() {
		if string(c) == name {
			return c, nil
		}
		names = append(names, string(c))
	}
	return "", fmt.Errorf("%w: unknown path %q: give one of %s", ErrInvalid, name, strings.Join(names, ", "))
}
