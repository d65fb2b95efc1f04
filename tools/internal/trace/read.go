package trace

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// maxFileBytes bounds what is read of one file, so that a wrong path (a
// device, a disk image) ends in an error and not in an exhausted machine.
const maxFileBytes = 1 << 30

// Read reads the trace at path: a Mooncake file, an agentic session, or a
// directory of agentic sessions, which it merges by time. The error is an
// *os.PathError or a *FormatError.
func Read(path string) (*Trace, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	if info.IsDir() {
		return readDir(path)
	}
	return readFile(path)
}

// Parse reads a trace from r; name stands in errors, and is the scope of an
// agentic session that does not name itself.
func Parse(name string, r io.Reader) (*Trace, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("trace: read %s: %w", name, err)
	}
	if len(data) > maxFileBytes {
		return nil, &FormatError{File: name, Offset: maxFileBytes, Reason: fmt.Sprintf("longer than %d bytes; is this a trace?", maxFileBytes)}
	}
	format, err := detect(name, data)
	if err != nil {
		return nil, err
	}
	if format == FormatMooncake {
		return parseMooncake(name, data)
	}
	return parseAgentic(name, data)
}

func readFile(path string) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	return Parse(path, f)
}

// readDir merges the *.json sessions of a directory. The scope of a session
// is its file name: ids in the files may coincide, file names do not.
func readDir(dir string) (*Trace, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	merged := &Trace{Format: FormatAgentic}
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) != ".json" {
			continue
		}
		t, err := readFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if err := merged.add(filepath.Join(dir, e.Name()), t); err != nil {
			return nil, err
		}
	}
	if len(merged.Requests) == 0 {
		return nil, &FormatError{File: dir, Offset: -1, Reason: "the directory holds no session (*.json); name a trace file or a directory of agentic sessions"}
	}
	sort.SliceStable(merged.Requests, func(i, j int) bool { return merged.Requests[i].At < merged.Requests[j].At })
	return merged, nil
}

func (t *Trace) add(path string, session *Trace) error {
	if session.Format != FormatAgentic {
		return &FormatError{File: path, Offset: -1, Reason: "a " + session.Format + " trace among agentic sessions; replay it alone"}
	}
	if t.TokensPerBlock != 0 && t.TokensPerBlock != session.TokensPerBlock {
		return &FormatError{File: path, Offset: -1, Reason: fmt.Sprintf("block_size %d differs from %d of the sessions before", session.TokensPerBlock, t.TokensPerBlock)}
	}
	t.TokensPerBlock = session.TokensPerBlock
	scope := strings.TrimSuffix(filepath.Base(path), ".json")
	for _, r := range session.Requests {
		r.Scope = scope
		t.Requests = append(t.Requests, r)
	}
	return nil
}

// detect tells the formats apart: a Mooncake file's first line is a whole
// object, an agentic session is one object with a list of requests.
func detect(name string, data []byte) (string, error) {
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 {
		return "", &FormatError{File: name, Offset: -1, Reason: "the file is empty"}
	}
	first, _, _ := bytes.Cut(trimmed, []byte("\n"))
	head := first[:min(len(first), 4096)]
	switch {
	case trimmed[0] != '{':
	case bytes.Contains(head, []byte(`"requests"`)), bytes.Contains(head, []byte(`"block_size"`)):
		return FormatAgentic, nil
	case bytes.Contains(head, []byte(`"hash_ids"`)), bytes.Contains(head, []byte(`"timestamp"`)):
		return FormatMooncake, nil
	case bytes.Contains(trimmed, []byte(`"requests"`)):
		return FormatAgentic, nil
	}
	return "", &FormatError{File: name, Line: 1, Offset: -1, Reason: `not a trace: expected Mooncake lines {"timestamp":…,"hash_ids":[…]} or an agentic session {"block_size":…,"requests":[…]}`}
}
