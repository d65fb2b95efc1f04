package packaging

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// analyzed runs systemd-analyze on a copy of the unit whose program is there.
func analyzed(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze in PATH")
	}
	unit, err := os.ReadFile("sealstone.service")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sealstone.service")
	if err := os.WriteFile(file, bytes.ReplaceAll(unit, []byte("/usr/bin/sealstone"), []byte(self)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, append(arguments, file)...).CombinedOutput()
	return string(out), err
}

func TestUnitIsSound(t *testing.T) {
	out, err := analyzed(t, "verify")
	if err != nil || strings.Contains(out, "sealstone.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestUnitIsExposedLittle: 0 is nothing, 10 everything; above 2 something was
// opened that should not be.
func TestUnitIsExposedLittle(t *testing.T) {
	out, err := analyzed(t, "security", "--offline=yes", "--no-pager")
	m := regexp.MustCompile(`exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("systemd-analyze security: %v\n%s", err, out)
	}
	if level, err := strconv.ParseFloat(m[1], 64); err != nil || level > 2 {
		t.Errorf("the exposure is %s, %v\n%s", m[1], err, out)
	}
}

// TestUnitSaysWhatTheServerNeeds: what no tool checks.
func TestUnitSaysWhatTheServerNeeds(t *testing.T) {
	unit, err := os.ReadFile("sealstone.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Type=notify", "WatchdogSec=", "StateDirectory=sealstone", "LimitNOFILE=", "LimitMEMLOCK=infinity", "ExecReload=/bin/kill -HUP $MAINPID",
		"--config /etc/sealstone/sealstone.toml", "io_uring_setup io_uring_enter io_uring_register", "User=sealstone", "RestartPreventExitStatus=3 4 6",
	} {
		if !strings.Contains(string(unit), want) {
			t.Errorf("the unit has no %q", want)
		}
	}
}

// TestDockerfile: built from source, no root, no secret in the image.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	s := string(text)
	for _, want := range []string{"AS build", "go build", "./tools/sealstone", "USER 65532:65532", "STOPSIGNAL SIGTERM", `ENTRYPOINT ["/usr/bin/sealstone", "serve"]`, "SEALSTONE_TOKENS="} {
		if !strings.Contains(s, want) {
			t.Errorf("the Dockerfile has no %q", want)
		}
	}
	module, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if language == nil || !strings.Contains(s, "golang:"+string(language[1])+"-") {
		t.Errorf("the image to build in is not that of Go %s", language)
	}
}
