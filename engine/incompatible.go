package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

// OnIncompatible says what Open does about a store that it cannot open: one of
// a format that this version does not know, or damaged beyond what Open mends.
type OnIncompatible string

const (
	// IncompatibleRefuse, the default, fails with ErrUnsupported or ErrDamaged
	// and changes nothing.
	IncompatibleRefuse OnIncompatible = "refuse"
	// IncompatibleSetAside moves the content into a directory of its own,
	// DIR/set-aside-TIME, and begins with an empty store. What is there counts
	// against the capacity and is never removed: that is for whoever decides
	// that nobody needs it.
	IncompatibleSetAside OnIncompatible = "set-aside"
)

// ParseOnIncompatible reads a choice as it is written in a configuration; ""
// is the default. Errors: ErrInvalid.
func ParseOnIncompatible(s string) (OnIncompatible, error) {
	switch c := OnIncompatible(s); c {
	case "":
		return IncompatibleRefuse, nil
	case IncompatibleRefuse, IncompatibleSetAside:
		return c, nil
	}
	return "", invalidf("OnIncompatible %q: %s or %s", s, IncompatibleRefuse, IncompatibleSetAside)
}

// isIncompatible tells what setting aside can help against. A device that fails
// is no such thing: what is on it may be sound.
func isIncompatible(err error) bool {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != syscall.ENOENT {
		return false
	}
	for _, kind := range []error{ErrUnsupported, ErrDamaged, meta.ErrUnsupported, meta.ErrDamaged, disk.ErrUnsupported, wal.ErrUnsupported} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// openOrSetAside opens a store, and where it is incompatible and that is asked
// for begins anew beside it.
func openOrSetAside(dir string, o Options) (*Store, error) {
	s := newStore(dir, o)
	err := s.open()
	if err == nil {
		return s, nil
	}
	err = errors.Join(deviceError(err), s.release())
	if !isIncompatible(err) || o.ReadOnly {
		return nil, err
	}
	if o.OnIncompatible != IncompatibleSetAside {
		return nil, fmt.Errorf("%w; or have the content set aside and begin anew (%s)", err, setAsideAdvice)
	}
	a, asideErr := setAside(dir, o, err)
	if asideErr != nil {
		return nil, fmt.Errorf("engine: set the content of %s aside: %w (because of: %w)", dir, asideErr, err)
	}
	s = newStore(dir, o)
	s.event(EventSetAside, "the content of %s could not be opened (%v) and was set aside in %s, %d bytes; the store begins empty", dir, err, a.dir, a.bytes)
	if err := s.open(); err != nil {
		return nil, errors.Join(deviceError(err), s.release())
	}
	return s, nil
}

// aside is content that was set aside.
type aside struct {
	s     *Store
	dir   string
	names []string // to be moved
	bytes int64    // of them
}

// asideManifest says, in the directory itself, what the directory is.
type asideManifest struct {
	Format  int       `json:"format"`
	About   string    `json:"about"`
	Created time.Time `json:"created"`
	Reason  string    `json:"reason"`
	Files   []string  `json:"files"`
}

// setAside moves the content of a store into a directory of its own, one
// rename for each name, with LOCK held. STORE goes first, durably: from then on
// nobody takes what is left for a store, however the rest ends. The next call
// goes on where one was cut off.
func setAside(dir string, o Options, reason error) (a *aside, err error) {
	s := newStore(dir, o)
	defer func() { err = errors.Join(err, s.release()) }()
	if err := s.openFS(); err != nil {
		return nil, err
	}
	if err := s.takeLock(); err != nil {
		return nil, err
	}
	a = &aside{s: s}
	if err := a.list(); err != nil {
		return nil, err
	}
	if err := a.fits(); err != nil {
		return nil, err
	}
	if err := a.chooseDir(); err != nil {
		return nil, err
	}
	if err := a.move(); err != nil {
		return nil, err
	}
	a.bytes = treeBytes(s.fs, a.dir)
	p, err := json.MarshalIndent(asideManifest{
		Format: 1, Created: s.o.private.now().UTC(), Reason: reason.Error(), Files: a.names,
		About: "The content of a store that could not be opened here, as it was. To have it back, remove what the store's directory holds now but for this directory, and move the files back. It counts against the capacity; remove it when nobody needs it.",
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	return a, replaceFile(s.fs, path.Join(a.dir, manifestName), append(p, '\n'))
}

// list finds what is to be moved: STORE first.
func (a *aside) list() error {
	all, err := a.s.fs.List(".")
	if err != nil {
		return err
	}
	for _, n := range all {
		switch {
		case !isOurs(n):
			a.s.strangeBytes += treeBytes(a.s.fs, n)
		case n == meta.LockFile, n == "lost+found", n == probeFile, disk.IsProbeScratch(n):
		default:
			a.names = append(a.names, n)
			a.bytes += treeBytes(a.s.fs, n)
		}
	}
	slices.SortStableFunc(a.names, func(x, y string) int { return asideRank(x) - asideRank(y) })
	return nil
}

// asideRank orders what is moved. Without STORE nothing is a store, and while
// segments, log or index are there without it none is made. So what a new store
// would overwrite or take for its own goes in between.
func asideRank(name string) int {
	switch {
	case strings.HasPrefix(name, meta.StoreFile):
		return 0
	case name == "segments", name == logDir, name == indexDir:
		return 2
	}
	return 1
}

// fits is an error if what is set aside leaves too little of the capacity for
// a store to begin in.
func (a *aside) fits() error {
	s := a.s
	s.strangeBytes += a.bytes
	_, _, err := s.roomToBegin()
	return err
}

// chooseDir makes the directory, or takes that of a call that was cut off: it
// has no manifest yet.
func (a *aside) chooseDir() error {
	all, err := a.s.fs.List(".")
	if err != nil {
		return err
	}
	slices.Reverse(all)
	for _, n := range all {
		if !strings.HasPrefix(n, asidePrefix) {
			continue
		}
		have, err := a.s.fs.List(n)
		if err != nil {
			return err
		}
		if slices.Contains(have, manifestName) || slices.ContainsFunc(a.names, func(n string) bool { return slices.Contains(have, n) }) {
			break
		}
		a.dir = n
		return nil
	}
	a.dir, err = freshDir(a.s.fs, asidePrefix+a.s.o.private.now().UTC().Format(stampLayout))
	return err
}

// move makes each rank durable before the next.
func (a *aside) move() error {
	for i, n := range a.names {
		if err := a.s.fs.Rename(n, path.Join(a.dir, n)); err != nil {
			return err
		}
		if i+1 < len(a.names) && asideRank(a.names[i+1]) == asideRank(n) {
			continue
		}
		if err := errors.Join(a.s.fs.SyncDir(a.dir), a.s.fs.SyncDir(".")); err != nil {
			return err
		}
	}
	return nil
}
