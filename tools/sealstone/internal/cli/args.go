package cli

import (
	"os"
	"strings"
)

// joinJSON makes "--json" a flag with an optional value, which the flag
// library can not do without giving up "--json FILE": followed by a name it is
// that file's flag, followed by nothing, another flag or a directory it means
// standard output.
func joinJSON(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return append(out, args[i:]...)
		}
		if a != "--json" {
			out = append(out, a)
			continue
		}
		value := "-"
		if i+1 < len(args) && isReportName(args[i+1]) {
			i++
			value = args[i]
		}
		out = append(out, "--json="+value)
	}
	return out
}

// isReportName reports whether the argument behind --json is the report's file.
func isReportName(arg string) bool {
	if arg == "-" {
		return true
	}
	if arg == "" || strings.HasPrefix(arg, "-") {
		return false
	}
	i, err := os.Stat(arg)
	return err != nil || !i.IsDir()
}
