package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"pgregory.net/rapid"
)

func flags() (*pflag.FlagSet, *Settings) {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	return fs, Register(fs)
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "sealstone.toml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestPrecedence: a flag goes before the environment, that before the file,
// that before the default, whichever of them are there.
func TestPrecedence(t *testing.T) {
	const byDefault = "127.0.0.1:6380"
	for mask := range 8 {
		var arguments, environment []string
		name, want, source := "", byDefault, FromDefault
		if mask&1 != 0 {
			name = file(t, "# a comment\nlisten = \"file:1\"\n")
			want, source = "file:1", name+":2"
		}
		if mask&2 != 0 {
			environment = []string{"PATH=/bin", "SEALSTONE_LISTEN=environment:1"}
			want, source = "environment:1", "SEALSTONE_LISTEN"
		}
		if mask&4 != 0 {
			arguments = []string{"--listen", "flag:1"}
			want, source = "flag:1", FromFlag
		}
		fs, s := flags()
		if err := fs.Parse(arguments); err != nil {
			t.Fatal(err)
		}
		got, err := Resolve(fs, environment, name)
		if err != nil || s.Listen != want || got.Source["listen"] != source {
			t.Errorf("sources %03b: %q from %q, %v; want %q from %q", mask, s.Listen, got.Source["listen"], err, want, source)
		}
		if s.HTTP != "127.0.0.1:6381" || got.Source["http"] != FromDefault {
			t.Errorf("http is %q from %q", s.HTTP, got.Source["http"])
		}
	}
}

// TestEveryFlagByEnvironmentAndFile: whatever is a flag may come either way,
// and an empty word that means something is no "not set".
func TestEveryFlagByEnvironmentAndFile(t *testing.T) {
	all, _ := flags()
	all.VisitAll(func(f *pflag.Flag) {
		value := map[string]string{"string": "x", "size": "3MiB", "duration": "7s", "int": "9", "bool": "true", "float64": "0.5"}[f.Value.Type()]
		if value == "" {
			t.Errorf("%s is a %s, which the test does not know", f.Name, f.Value.Type())
			return
		}
		fs, _ := flags()
		if r, err := Resolve(fs, []string{EnvironmentName(f.Name) + "=" + value}, ""); err != nil || fs.Lookup(f.Name).Value.String() != value || r.Source[f.Name] != EnvironmentName(f.Name) {
			t.Errorf("%s by the environment: %q, %v", f.Name, fs.Lookup(f.Name).Value, err)
		}
		fs, _ = flags()
		if _, err := Resolve(fs, nil, file(t, f.Name+" = \""+value+"\"\n")); err != nil || fs.Lookup(f.Name).Value.String() != value {
			t.Errorf("%s by the file: %q, %v", f.Name, fs.Lookup(f.Name).Value, err)
		}
	})
}

func TestFileTakesNumbersAndBooleans(t *testing.T) {
	fs, s := flags()
	if _, err := Resolve(fs, nil, file(t, "capacity = 1073741824\npprof = true\nlease-share = 0.5\nconnections-max = 7\nread-timeout = \"90s\"\n")); err != nil {
		t.Fatal(err)
	}
	if s.Store.Capacity != 1<<30 || !s.PProf || s.Store.LeaseShare != 0.5 || s.Limits.ConnectionsMax != 7 || s.Limits.ReadTimeout.Seconds() != 90 {
		t.Errorf("read %+v", s)
	}
}

// TestAllErrorsAreTold, with the place of each.
func TestAllErrorsAreTold(t *testing.T) {
	fs, _ := flags()
	name := file(t, "dir = \"/d\"\nlisten-at = \"x\"\ncapacity = \"much\"\n[limits]\nconnections-max = 1\n")
	_, err := Resolve(fs, []string{"SEALSTONE_STOP_TIMEOUT=soon"}, name)
	for _, want := range []string{
		`SEALSTONE_STOP_TIMEOUT="soon"`, name + `:2: unknown key "listen-at"`, name + `:3: capacity = "much": "much" is not a size`, name + `:4: unknown key "limits"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
}

func TestFilesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"dir = ":                "sealstone.toml:1: column",
		"dir = \"a\"\ndir = 2":  "dir",
		"dir = [\"a\"]":         ":1: dir: the value is no string, number or boolean",
		"capacity = 1979-05-27": ":1: capacity: the value is no string",
		"dir.x = \"a\"":         ":1: dir: the value is no string",
		"\xff":                  "sealstone.toml",
	} {
		fs, _ := flags()
		if _, err := Resolve(fs, nil, file(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want an error with %q", text, err, want)
		}
	}
	fs, _ := flags()
	if _, err := Resolve(fs, nil, t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Resolve(fs, nil, filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is read")
	}
}

func TestUnknownVariables(t *testing.T) {
	fs, _ := flags()
	r, err := Resolve(fs, []string{"SEALSTONE_LISTENS=x", "SEALSTONE_CONFIG=/f", "SEALSTONE_listen=y", "OTHER=z", "SEALSTONE_DIR=/d"}, "")
	if err != nil || strings.Join(r.Unknown, " ") != "SEALSTONE_LISTENS SEALSTONE_listen" {
		t.Errorf("unknown are %v, %v", r.Unknown, err)
	}
}

// TestNoFileEndsTheProcess: whatever the file holds, the answer is an error or
// settings, and lines are those of the file.
func TestNoFileEndsTheProcess(t *testing.T) {
	name := file(t, "")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`((dir|unix|capacity|x)[ =."\[\]0-9a-z]{0,12}\n){0,5}`), rapid.String()).Draw(t, "text")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		fs, _ := flags()
		r, err := Resolve(fs, nil, name)
		if err == nil && r == nil {
			t.Fatal("neither an error nor settings")
		}
	})
}
