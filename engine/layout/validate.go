package layout

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Validate reports whether l may describe a namespace: a *MissingError with
// all required fields that were left out, else an *InvalidError with all
// fields that have an impossible value, else nil.
func (l Layout) Validate() error {
	var missing []string
	var problems []Problem
	for i := range fields {
		f := &fields[i]
		switch {
		case !f.zero(&l):
			if problem := f.check(&l); problem != "" {
				problems = append(problems, Problem{Field: f.name, Text: problem})
			}
		case !f.optional:
			missing = append(missing, f.name)
		case f.name == "quantisation.scale_mode" && l.Quantisation.Scheme != "":
			missing = append(missing, f.name)
		}
	}
	if missing != nil {
		return &MissingError{Fields: missing}
	}
	if problems != nil {
		return &InvalidError{Problems: problems}
	}
	return nil
}

func checkText(s string) string {
	switch {
	case len(s) > MaxStringBytes:
		return fmt.Sprintf("%d bytes, more than %d", len(s), MaxStringBytes)
	case !utf8.ValidString(s):
		return "not valid UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "control characters"
	}
	return ""
}

func checkName(s string) string {
	if s == "" || len(s) > MaxNameBytes {
		return fmt.Sprintf("name %.80q: 1 to %d bytes are allowed", s, MaxNameBytes)
	}
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '_', c == '.', c == ':', c == '-':
		default:
			return fmt.Sprintf("name %q: only A-Z a-z 0-9 _ . : - are allowed", s)
		}
	}
	return ""
}

func checkKVLayout(l *Layout) string {
	if l.KVLayout == NHD || l.KVLayout == HND {
		return ""
	}
	name, ok := strings.CutPrefix(string(l.KVLayout), customPrefix)
	if !ok {
		return fmt.Sprintf("%q is not NHD, HND or custom:NAME", l.KVLayout)
	}
	return checkName(name)
}

func checkSwitch(l *Layout) string {
	if l.HybridKVManager == On || l.HybridKVManager == Off {
		return ""
	}
	return fmt.Sprintf("%q is not on or off", l.HybridKVManager)
}

func checkScaleMode(l *Layout) string {
	if l.Quantisation.Scheme == "" {
		return "a scale mode without a quantisation scheme"
	}
	return ""
}

func checkWidth(l *Layout) string {
	if w := l.Hash.WidthBytes; w < MinHashBytes || w > MaxHashBytes {
		return fmt.Sprintf("%d, allowed are %d to %d", w, MinHashBytes, MaxHashBytes)
	}
	return ""
}

func checkRoot(l *Layout) string {
	root := l.Hash.Root
	if root == None {
		return ""
	}
	if _, err := hex.DecodeString(root); err != nil || root != strings.ToLower(root) {
		return fmt.Sprintf("%.80q is not lower case hex or %q", root, None)
	}
	if len(root) > 2*MaxHashBytes {
		return fmt.Sprintf("%d bytes, more than %d", len(root)/2, MaxHashBytes)
	}
	return ""
}

func checkParallel(p Parallel) string {
	switch {
	case p.Agnostic && (p.Size != 0 || p.Rank != 0):
		return "agnostic and yet with size or rank"
	case !p.Agnostic && p.Rank >= p.Size:
		return fmt.Sprintf("rank %d of %d", p.Rank, p.Size)
	}
	return ""
}

func checkPlanes(planes []Plane) string {
	if len(planes) > MaxPlanes {
		return fmt.Sprintf("%d, more than %d", len(planes), MaxPlanes)
	}
	seen := map[string]bool{}
	total := int64(0)
	for _, p := range planes {
		if problem := checkName(p.Name); problem != "" {
			return problem
		}
		if seen[p.Name] {
			return fmt.Sprintf("%q twice", p.Name)
		}
		seen[p.Name] = true
		if p.SizeBytes < 0 || p.SizeBytes > MaxBlockBytes {
			return fmt.Sprintf("%q of %d bytes, allowed are 0 (any) to %d", p.Name, p.SizeBytes, MaxBlockBytes)
		}
		total += p.SizeBytes
	}
	if total > MaxBlockBytes {
		return fmt.Sprintf("together %d bytes, more than %d", total, MaxBlockBytes)
	}
	return ""
}

func checkExtra(extra map[string]string) string {
	if len(extra) > MaxExtra {
		return fmt.Sprintf("%d pairs, more than %d", len(extra), MaxExtra)
	}
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		value := extra[key]
		if problem := checkName(key); problem != "" {
			return problem
		}
		if problem := checkText(value); problem != "" {
			return fmt.Sprintf("value of %q: %s", key, problem)
		}
	}
	return ""
}
