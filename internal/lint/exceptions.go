package lint

import "strings"

// Exception lets one file, or one folder, break one rule in one way.
type Exception struct {
	Rule   string // name of the rule
	File   string // path within the repository; a folder covers its files
	Match  string // what the finding's message must contain
	Reason string // why it must be so
}

func (e Exception) covers(f Finding) bool {
	return e.Rule == f.Rule && under(f.File, e.File) && strings.Contains(f.Message, e.Match)
}

func (e Exception) finding(message string) Finding {
	return Finding{Rule: e.Rule, File: e.File, Message: message + " (internal/lint/exceptions.go, match " + e.Match + ")"}
}

// exceptions are those of this repository. Each needs a reason, and each must
// still cover something.
var exceptions = []Exception{
	{"layers", "gpu/gputest/reports", "must not import", "tests alone: what users reported is shown with a whole store, and belongs to gpu"},
	{"calls", "engine/index/canary_on.go", "os.Exit", "the canary build breaks the law that the process survives, to see that a test notices"},
	{"calls", "internal/memguard/memguard.go", "panic", "a panic that is none of its faults goes on as if it had not been caught"},
}
