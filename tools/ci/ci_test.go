// Package ci_test holds the scripts of this folder to their promises.
package ci_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script runs a script of this folder and returns its output and whether it
// ended with exit status 0.
func script(t *testing.T, dir, name string, args ...string) (string, bool) {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", append([]string{path}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GO=go", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return string(out), err == nil
}

// TestCanary: only a test that fails as a test, and only in the build that
// breaks the law, counts as a guard.
func TestCanary(t *testing.T) {
	for _, c := range []struct {
		law, want string
		ok        bool
	}{
		{"law1", "law1 broken on purpose: caught by TestLaw1Guards (of 2 tests)", true},
		{"law2", "no test of it fails", false},
		{"law3", "ended in a crash or a hang", false},
		{"law4", "although the law is not broken", false},
		{"law5", "a build without the tag heeds", false},
		{"law6", "no test matches", false},
	} {
		t.Run(c.law, func(t *testing.T) {
			out, ok := script(t, filepath.Join("testdata", "guard"), "canary.sh", "./e", c.law)
			if ok != c.ok || !strings.Contains(out, c.want) {
				t.Errorf("passed: %v, want %v; want output with %q:\n%s", ok, c.ok, c.want, out)
			}
		})
	}
}

// TestStages: the first failing stage ends the run, with a status that says so.
func TestStages(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "Makefile"), "good:\n\t@echo ran good\nbad:\n\t@exit 7\nlater:\n\t@echo ran later\n")
	out, ok := script(t, dir, "stages.sh", "make", "good:1", "later:1")
	if !ok || !strings.Contains(out, "ran later") || !strings.Contains(out, "all stages passed") {
		t.Errorf("passing stages: ok %v:\n%s", ok, out)
	}
	out, ok = script(t, dir, "stages.sh", "make", "good:1", "bad:1", "later:1")
	if ok || !strings.Contains(out, "bad FAILED") || strings.Contains(out, "ran later") {
		t.Errorf("failing stage: ok %v:\n%s", ok, out)
	}
	out, ok = script(t, dir, "stages.sh", "make", "good:0")
	if !ok || strings.Contains(out, "FAILED") {
		t.Errorf("a budget must not fail a stage: ok %v:\n%s", ok, out)
	}
}

// TestFuzz: a crash fails the script with its output, no fuzz function at all
// fails it too, and every function found is run.
func TestFuzz(t *testing.T) {
	module := func(t *testing.T, body string) string {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "go.mod"), "module example.org/f\n\ngo 1.26\n")
		write(t, filepath.Join(dir, "a", "a_test.go"), "package a\n\nimport \"testing\"\n\n"+body)
		return dir
	}
	const fuzz = "func FuzzA(f *testing.F) { f.Add(1); f.Fuzz(func(t *testing.T, n int) {}) }\n" +
		"func FuzzB(f *testing.F) { f.Add(1); f.Fuzz(func(t *testing.T, n int) { BODY }) }\n"
	for _, c := range []struct {
		name, body string
		want       []string
		ok         bool
	}{
		{"pass", strings.Replace(fuzz, "BODY", "", 1), []string{"2 functions", "FuzzA", "FuzzB"}, true},
		{"fail", strings.Replace(fuzz, "BODY", `t.Fatal("found it")`, 1), []string{"FAIL  a FuzzB", "found it"}, false},
		{"none", "func TestA(t *testing.T) {}\n", []string{"no fuzz function found"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, ok := script(t, module(t, c.body), "fuzz.sh", "20x")
			if ok != c.ok {
				t.Errorf("passed: %v, want %v", ok, c.ok)
			}
			for _, w := range c.want {
				if !strings.Contains(out, w) {
					t.Errorf("output lacks %q", w)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// TestRace: every test of the longest package runs in one half or the other,
// and a failure anywhere fails the script.
func TestRace(t *testing.T) {
	for _, broken := range []string{"", "a/TestOne", "a/TestTwo", "a/TestThree", "b/TestOther"} {
		t.Run(broken, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "go.mod"), "module example.org/r\n\ngo 1.26\n")
			for folder, names := range map[string][]string{"a": {"TestOne", "TestTwo", "TestThree"}, "b": {"TestOther"}} {
				body := "package " + folder + "\n\nimport \"testing\"\n\n"
				for _, name := range names {
					line := "t.Log(1)"
					if folder+"/"+name == broken {
						line = "t.Error(`broken on purpose`)"
					}
					body += "func " + name + "(t *testing.T) { " + line + " }\n"
				}
				write(t, filepath.Join(dir, folder, folder+"_test.go"), body)
			}
			out, ok := script(t, dir, "race.sh", "1m", "./a", "./...")
			if ok != (broken == "") || strings.Contains(out, "broken on purpose") != (broken != "") {
				t.Errorf("passed: %v:\n%s", ok, out)
			}
			if broken == "" && (!strings.Contains(out, "2 tests of 3") || !strings.Contains(out, "1 tests of 3") || !strings.Contains(out, "example.org/r/b")) {
				t.Errorf("not everything ran:\n%s", out)
			}
		})
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
