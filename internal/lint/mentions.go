package lint

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	// quoted is what a page sets in backticks, on one line.
	quoted = regexp.MustCompile("`([^`\n]+)`")
	// testName is the name of a function that go test runs.
	testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Z]\w*$`)
	// link is the target of a Markdown link within the repository.
	link = regexp.MustCompile(`\]\(([^)\s:#]+)(#[^)\s]*)?\)`)
	// plainPath has no wildcard, space or placeholder.
	plainPath = regexp.MustCompile(`^[\w./-]+$`)
)

// checkMentions holds that the documents speak of what is there: files that
// exist, tests that are defined, links that resolve.
func checkMentions(t *Tree) []Finding {
	var found []Finding
	tests, err := t.testNames()
	if err != nil {
		return []Finding{{Rule: "mentions", File: ".", Message: err.Error()}}
	}
	err = filepath.WalkDir(t.Root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range bytes.Split(src, []byte("\n")) {
			for _, m := range t.mentions(path, string(line), tests) {
				rel, err := filepath.Rel(t.Root, path)
				if err != nil {
					return err
				}
				found = append(found, Finding{Rule: "mentions", File: filepath.ToSlash(rel), Line: i + 1, Message: m})
			}
		}
		return nil
	})
	if err != nil {
		found = append(found, Finding{Rule: "mentions", File: ".", Message: err.Error()})
	}
	return found
}

// mentions returns what is wrong with one line of a page.
func (t *Tree) mentions(page, line string, tests map[string]bool) []string {
	var wrong []string
	for _, m := range quoted.FindAllStringSubmatch(line, -1) {
		switch word := m[1]; {
		case testName.MatchString(word):
			if !tests[word] {
				wrong = append(wrong, fmt.Sprintf("there is no test %s", word))
			}
		case layers[folder(word)] != 0 || folder(word) == "docs":
			if strings.Contains(word, "/") && plainPath.MatchString(word) && !exists(t.Root, word) {
				wrong = append(wrong, fmt.Sprintf("there is no file %s", word))
			}
		}
	}
	for _, m := range link.FindAllStringSubmatch(line, -1) {
		if !exists(filepath.Dir(page), m[1]) {
			wrong = append(wrong, fmt.Sprintf("the link %s leads nowhere", m[1]))
		}
	}
	return wrong
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
	return err == nil
}

// testFunc is the head of a function of a test file.
var testFunc = regexp.MustCompile(`(?m)^func (\w+)\(`)

// testNames are the functions of all test files, those of modules below this
// one included.
func (t *Tree) testNames() (map[string]bool, error) {
	names := map[string]bool{}
	err := filepath.WalkDir(t.Root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		src, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(src, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	return names, err
}
