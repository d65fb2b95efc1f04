package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// plant is something that another program, or a person, leaves in the place of
// a file or a directory of a closed store.
type plant struct {
	name string
	// put replaces the path; elsewhere is a path outside of the store.
	put func(path, elsewhere string) error
	// follows: the bytes are the store's own, under another name too.
	follows bool
}

var plants = []plant{
	{"symlink to itself, moved out", func(p, elsewhere string) error {
		return errors.Join(os.Rename(p, elsewhere), os.Symlink(elsewhere, p))
	}, false},
	{"symlink to nothing", func(p, _ string) error {
		return errors.Join(os.RemoveAll(p), os.Symlink("/nonexistent/target", p))
	}, false},
	{"pipe", func(p, _ string) error { return errors.Join(os.RemoveAll(p), syscall.Mkfifo(p, 0o600)) }, false},
	{"directory", func(p, _ string) error {
		return errors.Join(os.RemoveAll(p), os.MkdirAll(filepath.Join(p, "x"), 0o700))
	}, false},
	{"hard link", func(p, elsewhere string) error { return os.Link(p, elsewhere) }, true},
}

// TestFaultMediaPlanted, field case 43: whatever stands in the place of a file
// or a directory, Open and the gets return, nothing outside of the store is
// read or written, and no byte comes out wrong.
func TestFaultMediaPlanted(t *testing.T) {
	m := plantedStore(t)
	tally := faulttest.New(t)
	some := 2 // of so many
	if fullTests {
		some = 1
	} else if testing.Short() {
		some = 7
	}
	for at, name := range m.names {
		for i := range plants {
			if (at+i)%some != 0 {
				continue
			}
			m.plant(t, tally, &plants[i], name)
		}
	}
}

// realStore is a small closed store in a real directory.
type realStore struct {
	dir   string
	names []string // files and directories, within dir
}

func plantedStore(t *testing.T) *realStore {
	t.Helper()
	m := &realStore{dir: filepath.Join(t.TempDir(), "store")}
	v := &victimStore{}
	s, err := Open(m.dir, diskVictimOptions())
	if err != nil {
		t.Fatal(err)
	}
	v.put(t, mustSpace(t, s), diskVictimBlocks...)
	mustFlush(t, s)
	mustClose(t, s)
	err = filepath.WalkDir(m.dir, func(p string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(m.dir, p); rel != "." {
			m.names = append(m.names, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *realStore) plant(t *testing.T, tally *faulttest.Tally, p *plant, name string) {
	t.Helper()
	work := t.TempDir()
	dir, elsewhere := filepath.Join(work, "store"), filepath.Join(work, "elsewhere")
	if err := os.CopyFS(dir, os.DirFS(m.dir)); err != nil {
		t.Fatal(err)
	}
	if err := p.put(filepath.Join(dir, name), elsewhere); err != nil {
		if p.follows && errors.Is(err, syscall.EPERM) { // of a directory
			return
		}
		t.Fatal(err)
	}
	before := outsideOf(t, elsewhere)
	fault := tally.Try(fmt.Sprintf("%s in the place of %s", p.name, name))
	fault.Fire()
	vd := &verdict{status: map[int]Status{}, ioErrors: true}
	s, err := Open(dir, diskVictimOptions())
	if err == nil {
		for _, b := range diskVictimBlocks {
			vd.get(mustSpace(t, s), b, false)
		}
		if err := s.Close(context.Background()); err != nil && s.Health().State == HealthOK {
			vd.wrongf("close: %v", err)
		}
	}
	tally.WrongBytes(vd.wrongBytes)
	if !p.follows && !bytes.Equal(before, outsideOf(t, elsewhere)) {
		vd.wrongf("something outside of the store was changed")
	}
	if len(vd.wrong) > 0 {
		t.Errorf("%s in the place of %s: open %v: %q", p.name, name, err, vd.wrong)
		return
	}
	fault.Survive()
}

// outsideOf is all that can be seen of a path: names and bytes.
func outsideOf(t *testing.T, root string) []byte {
	t.Helper()
	var out bytes.Buffer
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(&out, p, d.Type())
		if d.Type().IsRegular() {
			bytesOf, err := os.ReadFile(p)
			out.Write(bytesOf)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
