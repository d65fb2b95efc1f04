package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
)

const (
	// keptPrefix and asidePrefix begin the names of directories in a store's
	// that hold what an operator has to decide about.
	keptPrefix  = "repair-"
	asidePrefix = "set-aside-"
	stampLayout = "20060102T150405Z"

	manifestName  = "MANIFEST.json"
	keptCopyBytes = 1 << 20 // copied at a time
)

// keeper keeps a copy of what a repair changes or removes, in a directory of
// its own within the store's.
type keeper struct {
	fs       vfs.FS
	dir      string
	manifest keptManifest
}

// keptManifest says, in the directory itself, what the directory is.
type keptManifest struct {
	Format  int            `json:"format"`
	About   string         `json:"about"`
	Created time.Time      `json:"created"`
	UUID    string         `json:"uuid"`
	State   string         `json:"state"` // begun or finished
	Actions []RepairAction `json:"actions"`
	Files   []keptFile     `json:"files"`
}

// keptFile is a copy, or where Moved the thing itself.
type keptFile struct {
	File        string `json:"file"` // within the store's directory
	Kept        string `json:"kept"` // within the manifest's
	OffsetBytes int64  `json:"offset_bytes"`
	Bytes       int64  `json:"bytes"` // -1: all
	Moved       bool   `json:"moved"`
}

// keeper makes the directory at its first call.
func (r *repairer) keeper(s *Store) (*keeper, error) {
	if r.kept != nil {
		r.kept.fs = s.fs
		return r.kept, nil
	}
	now := s.o.private.now().UTC()
	dir, err := freshDir(s.fs, keptPrefix+now.Format(stampLayout))
	if err != nil {
		return nil, fmt.Errorf("make a directory for copies: %w", err)
	}
	r.kept = &keeper{fs: s.fs, dir: dir, manifest: keptManifest{
		Format: 1, Created: now, UUID: r.report.UUID, State: "begun", Files: []keptFile{}, Actions: r.report.Actions,
		About: "What a repair of this store changed or removed. The store does not need it; it counts against the store's capacity. Remove it when nobody wants to look at it any more.",
	}}
	r.report.Kept = dir
	return r.kept, r.kept.write()
}

// freshDir makes a directory of that name, or with a number behind it.
func freshDir(fs vfs.FS, name string) (string, error) {
	const tries = 1000
	for n := range tries {
		dir := name
		if n > 0 {
			dir = fmt.Sprintf("%s-%d", name, n+1)
		}
		if _, err := fs.Stat(dir); err == nil {
			continue
		} else if !vfs.IsNotExist(err) {
			return "", err
		}
		if err := fs.Mkdir(dir); err != nil {
			return "", err
		}
		return dir, fs.SyncDir(".")
	}
	return "", fmt.Errorf("%s and %d more names are taken", name, tries-1)
}

// write replaces the manifest.
func (k *keeper) write() error {
	p, err := json.MarshalIndent(k.manifest, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(k.fs, path.Join(k.dir, manifestName), append(p, '\n'))
}

// finish notes what was done, and how much is kept.
func (k *keeper) finish(r *RepairReport) error {
	k.manifest.State, k.manifest.Actions, k.manifest.UUID = "finished", r.Actions, r.UUID
	r.KeptBytes = treeBytes(k.fs, k.dir)
	return k.write()
}

// copyFile keeps n bytes of a file from off on; n of -1 is the whole file. A
// file that is not there needs no copy.
func (k *keeper) copyFile(name string, off, n int64) (err error) {
	kept := name
	if n >= 0 {
		kept = fmt.Sprintf("%s.%d", name, off)
	}
	from, err := k.fs.Open(name, 0)
	if vfs.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep a copy of %s: %w", name, err)
	}
	defer from.Close() // opened for reading: nothing to lose
	if n < 0 {
		i, err := from.Stat()
		if err != nil {
			return fmt.Errorf("keep a copy of %s: %w", name, err)
		}
		n = i.SizeBytes
	}
	dest := path.Join(k.dir, kept)
	if err := k.makeDirs(dest); err != nil {
		return fmt.Errorf("keep a copy of %s: %w", name, err)
	}
	if err := copyDurably(k.fs, dest, from, off, n); err != nil {
		return fmt.Errorf("keep a copy of %s: %w", name, err)
	}
	k.manifest.Files = append(k.manifest.Files, keptFile{File: name, Kept: kept, OffsetBytes: off, Bytes: n})
	return k.write()
}

// makeDirs makes the directories above a name, durably.
func (k *keeper) makeDirs(name string) error {
	dir := path.Dir(name)
	if err := k.fs.MkdirAll(dir); err != nil {
		return err
	}
	for d := dir; d != "."; d = path.Dir(d) {
		if err := k.fs.SyncDir(path.Dir(d)); err != nil {
			return err
		}
	}
	return nil
}

// move keeps a file or a directory itself, with one rename.
func (k *keeper) move(name string) error {
	if _, err := k.fs.Stat(name); vfs.IsNotExist(err) {
		return nil
	}
	k.manifest.Files = append(k.manifest.Files, keptFile{File: name, Kept: name, Bytes: -1, Moved: true})
	if err := k.write(); err != nil {
		return err
	}
	if err := k.fs.Rename(name, path.Join(k.dir, name)); err != nil {
		return fmt.Errorf("keep %s: %w", name, err)
	}
	return errors.Join(k.fs.SyncDir(k.dir), k.fs.SyncDir(path.Dir(name)))
}

// copyDurably copies a part of a file to a new one. Zeros stay holes, and what
// cannot be read is left as one.
func copyDurably(fs vfs.FS, dest string, from vfs.File, off, n int64) (err error) {
	to, err := fs.Open(dest, vfs.Create|vfs.Trunc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	buf := make([]byte, min(n, keptCopyBytes))
	for done := int64(0); done < n; done += int64(len(buf)) {
		p := buf[:min(int64(len(buf)), n-done)]
		got, _ := from.ReadAt(p, off+done)
		if allZero(p[:got]) {
			continue
		}
		if _, err := to.WriteAt(p[:got], done); err != nil {
			return err
		}
	}
	if err := to.Truncate(n); err != nil {
		return err
	}
	if err := to.Sync(); err != nil {
		return err
	}
	return fs.SyncDir(path.Dir(dest))
}

// replaceFile puts content in the place of a file: after a crash it is the old
// one or the new one.
func replaceFile(fs vfs.FS, name string, p []byte) error {
	return replaceFileVia(fs, name+".tmp", name, p)
}

// replaceFileVia writes the content under a first name, which may be in another
// directory.
func replaceFileVia(fs vfs.FS, tmp, name string, p []byte) (err error) {
	if err := putFile(fs, tmp, p); err != nil {
		return err
	}
	if err := fs.Rename(tmp, name); err != nil {
		return err
	}
	return fs.SyncDir(path.Dir(name))
}

// putFile writes a whole file, durably but for its name.
func putFile(fs vfs.FS, name string, p []byte) (err error) {
	f, err := fs.Open(name, vfs.Create|vfs.Trunc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(p, 0); err != nil {
		return err
	}
	return f.Sync()
}

// isKept reports whether a name in the store's directory is of what a repair
// or an Open has put there for people to decide about.
func isKept(name string) bool {
	return strings.HasPrefix(name, keptPrefix) || strings.HasPrefix(name, asidePrefix)
}
