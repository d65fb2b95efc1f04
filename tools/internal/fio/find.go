package fio

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// ErrNotFound: there is no fio in PATH.
var ErrNotFound = errors.New("fio: not found in PATH; install it (Debian, Ubuntu: apt install fio; Fedora, RHEL: dnf install fio)")

// versionTimeout bounds the first start of the program.
const versionTimeout = 10 * time.Second

// Tool is an fio that answered.
type Tool struct {
	Path    string
	Version string // as it calls itself: "fio-3.33"
}

// Find looks for fio in PATH and asks for its version.
func Find(ctx context.Context) (*Tool, error) {
	path, err := exec.LookPath("fio")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	version := strings.TrimSpace(string(out))
	if err != nil || !strings.HasPrefix(version, "fio-") {
		return nil, fmt.Errorf("fio: %s --version says %.40q and not its version: %w", path, version, errors.Join(err, ErrOutput))
	}
	return &Tool{Path: path, Version: version}, nil
}
