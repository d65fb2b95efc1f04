package canary

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealstone/sealstone/gpu"
)

// keyVariable holds the key that a scripted child says it found, as JSON.
const keyVariable = "SEALSTONE_CANARY_KEY"

// runScript is a child that does no trial and answers as it is told.
func runScript(script string) int {
	out := os.NewFile(AnswerFD, "answer")
	if script == "deaf" {
		time.Sleep(time.Hour)
	}
	r, err := readRequest(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// A log in the working directory, as cuFile leaves one, and a file where
	// the trial keeps its own.
	_ = os.WriteFile("cufile.log", []byte("log"), 0o600)
	_ = os.Mkdir(filepath.Join(r.Dir, r.Scratch), 0o700)
	_ = os.WriteFile(filepath.Join(r.Dir, r.Scratch, fileName), make([]byte, 1<<20), 0o600)
	var key gpu.VerdictKey
	_ = json.Unmarshal([]byte(os.Getenv(keyVariable)), &key)
	v := provenVerdict(r.Dir, key)
	w := &answerWriter{out: out}
	_ = w.write(message{At: "a step", Tried: true})
	switch script {
	case "proven":
		_ = w.write(message{Nonce: r.Nonce, Verdict: &v})
	case "refused":
		v.State, v.Code, v.Name, v.Reason = gpu.VerdictRefused, 5027, "CU_FILE_HANDLE_NOT_REGISTERED", "no"
		_ = w.write(message{Nonce: r.Nonce, Verdict: &v})
	case "other nonce":
		_ = w.write(message{Nonce: "x" + r.Nonce, Verdict: &v})
	case "proven without checks":
		v.Checks = v.Checks[1:]
		_ = w.write(message{Nonce: r.Nonce, Verdict: &v})
	case "babble":
		for {
			if _, err := out.WriteString(strings.Repeat("x", 4096)); err != nil {
				return 0
			}
		}
	case "cut":
		line, _ := json.Marshal(message{Nonce: r.Nonce, Verdict: &v})
		_, _ = out.Write(line[:len(line)-3])
	case "dies":
		fmt.Fprintln(os.Stderr, "last words")
		return 7
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "hangs":
		time.Sleep(time.Hour)
	case "proven, then hangs":
		_ = w.write(message{Nonce: r.Nonce, Verdict: &v})
		_ = out.Close()
		time.Sleep(time.Hour)
	}
	return 0
}

// scripted is a prober whose child follows a script, and that finds itself
// wherever place says.
func scripted(t *testing.T, script string, place func() gpu.VerdictKey, change func(*Options)) *Prober {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	said, err := json.Marshal(testKey)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Program: []string{exe}, Root: bareMetal(t),
		// The race detector waits for a second at the end of a process.
		Env: []string{"GORACE=atexit_sleep_ms=0", scriptVariable + "=" + script, keyVariable + "=" + string(said)},
	}
	if change != nil {
		change(&o)
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	p.key = func(context.Context, request) (gpu.VerdictKey, *finding) { return place(), nil }
	return p
}

func here() gpu.VerdictKey { return testKey }

// bareMetal is a root folder of a machine that is no virtual one and has udev.
func bareMetal(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "run/udev"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}
