package inventory

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// maxFileBytes bounds what is read of one file of /proc or /sys. The longest
// that are read whole are lists of mounts and of CPUs.
const maxFileBytes = 4 << 20

// tree reads /sys, /proc and /run below a root. Names are relative, with
// slashes. Nothing is kept between calls.
type tree struct{ root string }

func (t tree) path(name string) string { return filepath.Join(t.root, filepath.FromSlash(name)) }

func (t tree) read(name string) ([]byte, error) {
	f, err := os.Open(t.path(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFileBytes))
}

// line is the first line of a file without spaces around it; "" where there
// is none.
func (t tree) line(name string) string {
	b, err := t.read(name)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(first)
}

// lines are those of a file that are not empty.
func (t tree) lines(name string) ([]string, error) {
	b, err := t.read(name)
	if err != nil {
		return nil, err
	}
	var all []string
	for l := range strings.Lines(string(b)) {
		if l = strings.TrimSpace(l); l != "" {
			all = append(all, l)
		}
	}
	return all, nil
}

// number is that in a file: decimal, or hexadecimal behind 0x.
func (t tree) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(t.line(name), 0, 64)
	return n, err == nil
}

// names lists a folder, sorted; a folder that is not there is empty.
func (t tree) names(dir string) []string {
	entries, err := os.ReadDir(t.path(dir))
	if err != nil {
		return nil
	}
	all := make([]string, 0, len(entries))
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func (t tree) exists(name string) bool {
	_, err := os.Stat(t.path(name))
	return err == nil
}

func (t tree) isDir(name string) bool {
	i, err := os.Stat(t.path(name))
	return err == nil && i.IsDir()
}

// resolve follows all links and returns the name that is left, again relative
// to the root.
func (t tree) resolve(name string) (string, error) {
	root, err := filepath.EvalSymlinks(t.root)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(t.path(name))
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(root, real)
	if err != nil {
		return "", err
	}
	if rel = filepath.ToSlash(rel); rel == ".." || strings.HasPrefix(rel, "../") {
		return "", fmt.Errorf("%s: the link leads out of %s", name, t.root)
	}
	return path.Clean(rel), nil
}

// why is an error about a file in few words: the path is known to the reader.
func why(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
