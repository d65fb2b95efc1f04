package lint

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxLines is the longest that a file with code may be. A file nears it when
// it has lost its one subject.
const maxLines = 600

// checkLength holds maxLines.
func checkLength(t *Tree) []Finding {
	var found []Finding
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if !f.Test && f.Lines > maxLines {
				found = append(found, Finding{Rule: "length", File: f.Name,
					Message: fmt.Sprintf("%d lines, at most %d: split it by subject", f.Lines, maxLines)})
			}
		}
	}
	return found
}

// machinePaths are put together here so that this file does not contain them.
var machinePaths = []string{"/wo" + "rk/", "/tmp/" + "plan", "/ro" + "ot/"}

// checkPaths holds that no file names a path of the machine that it was
// written on. It looks at every file, not only at Go.
func checkPaths(t *Tree) []Finding {
	var found []Finding
	err := filepath.WalkDir(t.Root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != t.Root && (d.Name() == ".git" || d.Name() == "bin"):
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(t.Root, path)
		if err != nil {
			return err
		}
		found = append(found, machinePathsIn(filepath.ToSlash(rel), src)...)
		return nil
	})
	if err != nil {
		found = append(found, Finding{Rule: "paths", File: ".", Message: err.Error()})
	}
	return found
}

func machinePathsIn(name string, src []byte) []Finding {
	var found []Finding
	for i, line := range bytes.Split(src, []byte("\n")) {
		for _, p := range machinePaths {
			if bytes.Contains(line, []byte(p)) {
				found = append(found, Finding{Rule: "paths", File: name, Line: i + 1,
					Message: fmt.Sprintf("contains the machine path %s", p)})
			}
		}
	}
	return found
}
