package canary

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// protocol is the version of what parent and child say to each other, and of
// what the child does: another one is refused, and a kept verdict of another
// one is not used.
const protocol = 1

// requestBytesMax bounds a request.
const requestBytesMax = 64 << 10

// request is what the parent asks of its child.
type request struct {
	Protocol int `json:"protocol"`
	// Nonce stands in the answer again, so that nothing else passes for it.
	Nonce string `json:"nonce"`
	GPU   string `json:"gpu"`
	Dir   string `json:"dir"` // absolute
	// Scratch is the name of the folder to make in Dir, and to remove.
	Scratch string `json:"scratch"`
	// LogDir is a folder of the parent that it removes.
	LogDir     string `json:"log_dir"`
	CUDAPath   string `json:"cuda_path"`
	CuFilePath string `json:"cufile_path"`
	IOBytesMax int64  `json:"io_bytes_max"`
	TimeoutMs  int64  `json:"timeout_ms"`
	Uncounted  bool   `json:"uncounted"`
	Root       string `json:"root"`
}

// scratchPattern are names of a canary's folder.
var scratchPattern = regexp.MustCompile(`^sealstone-canary-[0-9a-f]{16}\.tmp$`)

// IsScratch says whether a name in a directory is that of the folder in which a
// canary keeps its file. One that a canary left behind is removed by a later
// one.
func IsScratch(name string) bool { return scratchPattern.MatchString(name) }

// readRequest reads one request. It ends the first line, so that the reader can
// then wait for the end of the input, which tells that the parent is gone.
func readRequest(in io.Reader) (request, error) {
	var r request
	line, err := readLine(in, requestBytesMax)
	if err != nil {
		return r, fmt.Errorf("canary: request: %w", err)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("canary: request: %w", err)
	}
	return r, r.check()
}

// readLine reads up to a newline, byte by byte: what follows is left.
func readLine(in io.Reader, most int) ([]byte, error) {
	var line []byte
	b := make([]byte, 1)
	for len(line) <= most {
		n, err := in.Read(b)
		if n == 1 && b[0] == '\n' {
			return line, nil
		}
		line = append(line, b[:n]...)
		if err == io.EOF {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("more than %d bytes without a newline", most)
}

func (r request) check() error {
	switch {
	case r.Protocol != protocol:
		return fmt.Errorf("canary: request of protocol %d, this program speaks %d", r.Protocol, protocol)
	case !filepath.IsAbs(r.Dir):
		return fmt.Errorf("canary: request: directory %q is not absolute", r.Dir)
	case !IsScratch(r.Scratch) || strings.ContainsRune(r.Scratch, filepath.Separator):
		return fmt.Errorf("canary: request: scratch name %q", r.Scratch)
	case r.GPU == "" || r.Nonce == "":
		return fmt.Errorf("canary: request without a GPU or a nonce")
	case r.TimeoutMs <= 0 || r.TimeoutMs > time.Hour.Milliseconds():
		return fmt.Errorf("canary: request: timeout of %d ms", r.TimeoutMs)
	}
	_, err := Options{IOBytesMax: r.IOBytesMax}.withDefaults()
	return err
}

// trialText names what a canary does, for the key of a verdict.
func (r request) trialText() string {
	return fmt.Sprintf("protocol %d, reads to %d, uncounted %t", protocol, r.IOBytesMax, r.Uncounted)
}
