package gputest

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

//go:embed native/*.c native/*.h
var native embed.FS

// library is one double: the file that it becomes and its sources.
type library struct {
	file    string
	sources []string
}

var libraries = []library{
	{"libcuda.so.1", []string{"core", "faults", "context", "memory", "stream", "copy", "kernel"}},
	{"libcufile.so.0", []string{"cufile", "sibling"}},
	{"libnvidia-ml.so.1", []string{"nvml", "sibling"}},
}

// objects are the compiled sources, made once a process: the C compiler takes
// longer than most tests.
var objects = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "gpu-doubles-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	args := []string{"-std=gnu11", "-O0", "-Wall", "-Wno-unknown-pragmas", "-fPIC", "-pthread", "-c"}
	names, err := native.ReadDir("native")
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		src, err := native.ReadFile("native/" + n.Name())
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, n.Name()), src, 0o600); err != nil {
			return nil, err
		}
		if filepath.Ext(n.Name()) == ".c" {
			args = append(args, n.Name())
		}
	}
	if err := run(dir, args...); err != nil {
		return nil, err
	}
	made := map[string][]byte{}
	for _, l := range libraries {
		for _, s := range l.sources {
			if made[s], err = os.ReadFile(filepath.Join(dir, s+".o")); err != nil {
				return nil, err
			}
		}
	}
	return made, nil
})

// linked are the three libraries with all functions.
var linked = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "gpu-doubles-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	made := map[string][]byte{}
	for _, l := range libraries {
		if err := l.link(dir, nil); err != nil {
			return nil, err
		}
		if made[l.file], err = os.ReadFile(filepath.Join(dir, l.file)); err != nil {
			return nil, err
		}
	}
	return made, nil
})

// Compile puts the doubles into an existing directory, under the names of the
// real libraries. The functions named in without are left out, as from an older
// version. Each copy, loaded from its own path, has its own state.
func Compile(dir string, without ...string) error {
	made, err := linked()
	if err != nil {
		return err
	}
	for _, l := range libraries {
		if gone := l.among(without); len(gone) > 0 {
			err = l.link(dir, gone)
		} else {
			err = os.WriteFile(filepath.Join(dir, l.file), made[l.file], 0o700)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// among returns the functions that are the library's.
func (l library) among(functions []string) []string {
	var own []string
	for _, f := range functions {
		switch {
		case strings.HasPrefix(f, "cuFile"):
			if l.file == libraries[1].file {
				own = append(own, f)
			}
		case strings.HasPrefix(f, "nvml"):
			if l.file == libraries[2].file {
				own = append(own, f)
			}
		case l.file == libraries[0].file:
			own = append(own, f)
		}
	}
	return own
}

// link links one library in dir.
func (l library) link(dir string, without []string) error {
	made, err := objects()
	if err != nil {
		return err
	}
	args := []string{"-shared", "-pthread", "-o", l.file}
	for _, s := range l.sources {
		file := filepath.Join(dir, s+".o")
		if err := os.WriteFile(file, made[s], 0o600); err != nil {
			return err
		}
		defer os.Remove(file)
		args = append(args, s+".o")
	}
	if len(without) > 0 {
		script := filepath.Join(dir, "hidden.map")
		text := "{ local: " + strings.Join(without, "; ") + "; };\n"
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			return err
		}
		defer os.Remove(script)
		args = append(args, "-Wl,--version-script="+script)
	}
	return run(dir, append(args, "-ldl")...)
}

// run runs the C compiler.
func run(dir string, args ...string) error {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	cmd := exec.Command(cc, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("gputest: %s %s: %w\n%s", cc, strings.Join(args, " "), err, out)
	}
	return nil
}
