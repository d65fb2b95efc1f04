// Package lint holds the project's own rules, those that gofmt, vet and
// staticcheck know nothing of: which package may import which, what a library
// must never call, what has to be documented, how long a file may be,
// that no path of the machine it was written on stays behind, and that the
// documents speak of files and tests that are there and of every test that
// may be skipped, and show code that is compiled.
//
// The rules run as a Go test (go test ./internal/lint, make layers). Each has
// a test on a small tree that breaks it, so that none can fall silent.
package lint

import (
	"cmp"
	"fmt"
	"slices"
)

// Finding is one place that breaks a rule.
type Finding struct {
	Rule    string // name of the rule
	File    string // path within the repository, with slashes
	Line    int    // 1-based, or 0 if the whole file is meant
	Message string // what is wrong and what to do
}

// String is the finding in the form that editors and compilers share.
func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s [%s]", f.File, f.Message, f.Rule)
	}
	return fmt.Sprintf("%s:%d: %s [%s]", f.File, f.Line, f.Message, f.Rule)
}

// Rule looks at a whole tree and returns what breaks it.
type Rule struct {
	Name  string
	Check func(*Tree) []Finding
}

// Rules lists all rules. Exceptions are not yet taken out: see Check.
func Rules() []Rule {
	return []Rule{
		{"layers", checkLayers},
		{"imports", checkImports},
		{"calls", checkCalls},
		{"docs", checkDocs},
		{"length", checkLength},
		{"paths", checkPaths},
		{"mentions", checkMentions},
		{"skips", checkSkips},
		{"readme", checkReadme},
	}
}

// Check runs one rule over a tree, takes out what an exception covers and adds
// a finding for each exception of the rule that has no reason or covers
// nothing (any more). Findings are sorted by file and line.
func Check(t *Tree, r Rule, exceptions []Exception) []Finding {
	found := r.Check(t)
	for _, e := range exceptions {
		if e.Rule != r.Name {
			continue
		}
		rest := slices.DeleteFunc(slices.Clone(found), e.covers)
		switch {
		case e.Reason == "":
			found = append(found, e.finding("the exception gives no reason"))
		case len(rest) == len(found):
			found = append(found, e.finding("the exception covers nothing; remove it"))
		default:
			found = rest
		}
	}
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	return found
}
