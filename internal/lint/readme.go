package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	readmePage  = "README.md"
	readmeCode  = "engine/example_test.go"
	readmeFence = "```"
)

// goBlock is the first Go code of a page.
var goBlock = regexp.MustCompile("(?s)" + readmeFence + "go\n(.*?)" + readmeFence)

// checkReadme holds that the code which the README shows stands, word for
// word, in an example that is compiled and run.
func checkReadme(t *Tree) []Finding {
	read := func(name string) (string, []Finding) {
		src, err := os.ReadFile(filepath.Join(t.Root, filepath.FromSlash(name)))
		if err != nil {
			return "", []Finding{{Rule: "readme", File: name, Message: err.Error()}}
		}
		return string(src), nil
	}
	page, found := read(readmePage)
	if found != nil {
		return found
	}
	code, found := read(readmeCode)
	if found != nil {
		return found
	}
	block := goBlock.FindStringSubmatch(page)
	if block == nil {
		return []Finding{{Rule: "readme", File: readmePage, Message: "shows no Go code"}}
	}
	if !strings.Contains(words(code), words(block[1])) {
		return []Finding{{Rule: "readme", File: readmePage,
			Message: "its Go code does not stand in " + readmeCode + ": copy it there, or from there"}}
	}
	return nil
}

// words is a text with every run of white space as one space.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }
