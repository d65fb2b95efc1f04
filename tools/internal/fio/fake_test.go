package fio

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake puts a program named fio alone into PATH. body is a shell script; %d
// in it is the folder with the recorded reports.
func fake(t *testing.T, body string) {
	t.Helper()
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := "#!/bin/sh\nPATH=/bin:/usr/bin\n" + strings.ReplaceAll(body, "%d", data)
	if err := os.WriteFile(filepath.Join(dir, "fio"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

// answersVersion is the part of a fake that Find talks to.
const answersVersion = `[ "$1" = --version ] && { echo fio-3.33; exit 0; }` + "\n"
