package lint

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRepository holds every rule over this repository.
func TestRepository(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if tree.Module != "github.com/sealstone/sealstone" {
		t.Fatalf("module is %q: looked at the wrong tree %s", tree.Module, root)
	}
	for _, r := range Rules() {
		t.Run(r.Name, func(t *testing.T) {
			for _, f := range Check(tree, r, exceptions) {
				t.Error(f)
			}
		})
	}
}

// fixture lays out a module of its own and loads it.
func fixture(t *testing.T, files map[string]string) *Tree {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{"go.mod": "module example.org/m\n\ngo 1.26\n"}
	for name, src := range files {
		all[name] = src
	}
	for name, src := range all {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func rule(t *testing.T, name string) Rule {
	t.Helper()
	rules := Rules()
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("no rule %q", name)
	}
	return rules[i]
}

// src is a documented package with the given imports and body.
func src(pkg string, rest ...string) string {
	return "// Package " + pkg + " is a fixture.\npackage " + pkg + "\n\n" + strings.Join(rest, "\n") + "\n"
}

func imp(path string) string { return `import _ "` + path + `"` }

// TestRules gives each rule a tree that breaks it and one that does not.
func TestRules(t *testing.T) {
	const m = "example.org/m/"
	cases := []struct {
		name, rule string
		files      map[string]string
		want       []string // one substring per finding, in order; none: the tree is fine
	}{
		{"down", "layers", map[string]string{
			"tools/a/a.go":  src("a", imp(m+"engine")),
			"engine/e.go":   src("engine", imp(m+"wal"), imp(m+"internal/v"), imp(m+"engine/x")),
			"engine/x/x.go": src("x", imp(m+"tiers/disk")),
		}, nil},
		{"engine to tools", "layers", map[string]string{"engine/e.go": src("engine", imp(m+"tools/a"))},
			[]string{"engine/e.go:4: engine must not import example.org/m/tools/a"}},
		{"siblings", "layers", map[string]string{"wal/w.go": src("wal", imp(m+"tiers"), imp(m+"gpu"))},
			[]string{"wal must not import example.org/m/tiers", "wal must not import example.org/m/gpu"}},
		{"internal looks up", "layers", map[string]string{"internal/v/v.go": src("v", imp(m+"wal"))},
			[]string{"internal must not import"}},
		{"a test looks up", "layers", map[string]string{"wal/w.go": src("wal"), "wal/w_test.go": "package wal\n" + imp(m+"engine")},
			[]string{"wal/w_test.go:2:"}},
		{"a file for another system looks up", "layers", map[string]string{"wal/w.go": src("wal"), "wal/w_plan9.go": "package wal\n" + imp(m+"engine")},
			[]string{"wal/w_plan9.go:2:"}},
		{"no layer", "layers", map[string]string{"util/u.go": src("util")}, []string{`folder "util" belongs to no layer`}},

		{"in their place", "imports", map[string]string{
			"engine/index/i.go": src("index", imp("github.com/cockroachdb/pebble/v2/vfs")),
			"tools/a/a.go":      src("a", imp("github.com/spf13/cobra"), imp("log")),
			"engine/e.go":       src("engine", imp("log/slog"), imp("github.com/cockroachdb/pebbles")),
			"wal/w_test.go":     "package wal\n" + imp("testing") + "\n" + imp("pgregory.net/rapid"),
			"tiers/rtest/r.go":  src("rtest", imp("testing")),
		}, nil},
		{"pebble", "imports", map[string]string{
			"engine/e.go":        src("engine", imp("github.com/cockroachdb/pebble/v2")),
			"tools/a/a.go":       src("a", imp("github.com/cockroachdb/pebble/v2")),
			"internal/v_test.go": "package v\n" + imp("github.com/cockroachdb/pebble/v2/vfs"),
		}, []string{"engine/e.go:4: github.com/cockroachdb/pebble/v2 is allowed only below engine/index", "internal/v_test.go:2:", "tools/a/a.go:4:"}},
		{"tools' libraries", "imports", map[string]string{"engine/e.go": src("engine",
			imp("github.com/spf13/cobra"), imp("github.com/prometheus/client_golang/prometheus"), imp("github.com/schollz/progressbar/v3"), imp("log"))},
			[]string{"cobra", "prometheus", "progressbar", "log is allowed only below tools"}},
		{"test libraries", "imports", map[string]string{"wal/w.go": src("wal", imp("pgregory.net/rapid"), imp("testing"))},
			[]string{"rapid is allowed only in tests", "testing is allowed only in tests"}},
		{"cgo", "imports", map[string]string{"wal/w.go": src("wal", `import "C"`)}, []string{"C is allowed only below gpu"}},
		{"gpu inventory", "imports", map[string]string{
			"engine/e.go":          src("engine", imp("github.com/sealstone/sealstone/gpu/inventory"), imp("github.com/sealstone/sealstone/gpu/driver")),
			"gpu/inventory/i.go":   src("inventory", imp("github.com/NVIDIA/go-nvml/pkg/nvml")),
			"tools/gpucheck/g.go":  src("gpucheck", imp("github.com/sealstone/sealstone/gpu/inventory")),
			"gpu/canary/c_test.go": "package canary\n" + imp("github.com/NVIDIA/go-nvml/pkg/nvml"),
		}, []string{"engine/e.go:4: github.com/sealstone/sealstone/gpu/inventory is allowed only below", "gpu/canary/c_test.go:2: github.com/NVIDIA/go-nvml/pkg/nvml is allowed only below gpu/inventory"}},

		{"quiet", "calls", map[string]string{
			"wal/w.go":        src("wal", `import "fmt"`, "var _ = fmt.Sprint", "func print2() { recover() }"),
			"wal/w_test.go":   "package wal\nfunc init() { panic(1) }",
			"tools/a/main.go": src("main", `import "os"`, "func main() { os.Exit(1) }"),
			"tools/b/b.go":    src("b", "func f() { panic(1) }"),
		}, nil},
		{"noisy", "calls", map[string]string{"wal/w.go": src("wal", `import ("fmt"; "log"; "os")`,
			"func f() {", "panic(1)", "println(1)", "os.Exit(1)", "fmt.Println(1)", "fmt.Fprint(os.Stderr)", "log.Print(1)", "}")},
			[]string{"wal/w.go:6: panic", "7: println", "8: os.Exit", "9: fmt.Println", "10: os.Stderr", "11: log.Print"}},
		{"a variable called log", "calls", map[string]string{"wal/w.go": src("wal", "type l struct{}", "func (l) Print() {}", "func f() { var log l; log.Print() }")}, nil},
		{"another name", "calls", map[string]string{"wal/w.go": src("wal", `import sys "os"`, "func f() { sys.Exit(1) }")}, []string{"os.Exit"}},
		{"a value, not a call", "calls", map[string]string{"wal/w.go": src("wal", `import "os"`, "var exit = os.Exit")}, []string{"os.Exit"}},

		{"told", "docs", map[string]string{
			"wal/w.go": src("wal", "// A is.", "type A int", "func (A) Error() string { return \"\" }", "type b int", "func (b) M() {}",
				"// Group.", "const (", "C = 1", "D = 2", ")", "const (", "E = 1 // is", ")"),
			"wal/w_test.go": "package wal\nfunc TestX() {}",
		}, nil},
		{"untold", "docs", map[string]string{"wal/w.go": "package wal\ntype A int\nfunc (*A) M() {}\nfunc (A) n() {}\nfunc F() {}\nvar V int\n" +
			"// Group.\ntype (\nB int\n)\ntype G[T any] int\nfunc (G[T]) M() {}\n"},
			[]string{"no package comment", "exported A", "exported M", "exported F", "exported V", "exported B", "exported G", "exported M"}},

		{"as long as allowed", "length", map[string]string{
			"wal/w.go":      src("wal") + strings.Repeat("\n", maxLines-4),
			"wal/w_test.go": "package wal\n" + strings.Repeat("\n", maxLines),
		}, nil},
		{"too long", "length", map[string]string{"wal/w.go": src("wal") + strings.Repeat("\n", maxLines)}, []string{"at most 600"}},

		{"no machine paths", "paths", map[string]string{"wal/w.go": src("wal"), "README.md": "the network/ and homework/x"}, nil},
		{"machine paths", "paths", map[string]string{
			"wal/w.go":        src("wal", "// see "+machinePaths[0]+"x"),
			"docs/a.md":       "one\ntwo " + machinePaths[1] + "/x\n",
			"bin/skipped.txt": machinePaths[0],
		}, []string{"docs/a.md:2:", "wal/w.go:4:"}},

		{"there", "mentions", map[string]string{
			"wal/w.go": src("wal"), "wal/w_test.go": "package wal\nfunc TestA() {}",
			"docs/a.md": "`TestA` in `wal/w_test.go`, [b](b.md#x), `wal/*.go`, `walk/on`, `wal`, [x](https://example.org), `Test`\n", "docs/b.md": "[a](../docs/a.md)",
		}, nil},
		{"not there", "mentions", map[string]string{
			"wal/w.go": src("wal", "func TestA() {}"), "docs/a.md": "`TestA` and\n`wal/v.go`, `docs/b.md`\n[c](c.md)",
		}, []string{"docs/a.md:1: there is no test TestA", "docs/a.md:2: there is no file docs/b.md", "docs/a.md:2: there is no file wal/v.go", "docs/a.md:3: the link c.md leads nowhere"}},

		{"skip listed", "skips", map[string]string{
			"wal/w_test.go": "package wal\nfunc f() { t.Skip(`no`) }", "docs/testing.md": "| `wal/w_test.go` | why |",
		}, nil},
		{"skip not listed", "skips", map[string]string{
			"wal/w_test.go": "package wal\nfunc f() {\nt.Skipf(`no`)\nb.SkipNow()\n}", "docs/testing.md": "wal/w_test.go",
		}, []string{"wal/w_test.go:3:", "wal/w_test.go:4:"}},
		{"no page of skips", "skips", map[string]string{"wal/w_test.go": "package wal\nfunc f() { t.Skip(`no`) }"}, []string{"wal/w_test.go:2:"}},

		{"example in the readme", "readme", map[string]string{
			"README.md": "# X\n```go\na := 1\nb(a)\n```\n", "engine/example_test.go": "package engine\nfunc Example() {\n\ta := 1\n\tb(a)\n}",
		}, nil},
		{"another example in the readme", "readme", map[string]string{
			"README.md": "# X\n```go\na := 2\n```\n", "engine/example_test.go": "package engine\nfunc Example() { a := 1 }",
		}, []string{"does not stand in engine/example_test.go"}},
		{"no code in the readme", "readme", map[string]string{"README.md": "# X\n", "engine/example_test.go": "package engine"}, []string{"shows no Go code"}},
		{"no example", "readme", map[string]string{"README.md": "```go\na\n```", "engine/e.go": src("engine")}, []string{"engine/example_test.go"}},
	}
	for _, c := range cases {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			found := Check(fixture(t, c.files), rule(t, c.rule), nil)
			if len(found) != len(c.want) {
				t.Fatalf("found %d, want %d: %v", len(found), len(c.want), found)
			}
			for i, f := range found {
				if f.Rule != c.rule || !strings.Contains(f.String(), c.want[i]) {
					t.Errorf("found %q, want it to contain %q", f, c.want[i])
				}
			}
		})
	}
}

func TestExceptions(t *testing.T) {
	files := map[string]string{"wal/w.go": src("wal", "func f() { panic(1) }")}
	good := Exception{Rule: "calls", File: "wal/w.go", Match: "panic", Reason: "a fixture"}
	noReason, noMatch, otherFile, otherRule := good, good, good, good
	noReason.Reason = ""
	noMatch.Match = "os.Exit"
	otherFile.File = "wal/w"
	otherRule.Rule = "docs"
	folder := good
	folder.File = "wal"
	cases := []struct {
		name string
		e    Exception
		want []string
	}{
		{"covers", good, nil},
		{"covers a folder", folder, nil},
		{"no reason", noReason, []string{"gives no reason", "panic in a library"}},
		{"no match", noMatch, []string{"covers nothing", "panic in a library"}},
		{"other file", otherFile, []string{"covers nothing", "panic in a library"}},
		{"other rule", otherRule, []string{"panic in a library"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			found := Check(fixture(t, files), rule(t, "calls"), []Exception{c.e})
			if len(found) != len(c.want) {
				t.Fatalf("found %v, want %d", found, len(c.want))
			}
			for _, w := range c.want {
				if !slices.ContainsFunc(found, func(f Finding) bool { return strings.Contains(f.Message, w) }) {
					t.Errorf("no finding contains %q: %v", w, found)
				}
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no package":   {"go.mod": "module example.org/m\n"},
		"syntax error": {"go.mod": "module example.org/m\n", "wal/w.go": "package wal\nfunc {"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for f, s := range files {
				if err := os.MkdirAll(filepath.Join(root, filepath.Dir(f)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, f), []byte(s), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if tree, err := Load(root); err == nil {
				t.Errorf("Load gave %d packages and no error", len(tree.Packages))
			}
		})
	}
}
