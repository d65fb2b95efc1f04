package kernel

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The clang whose text is committed. Another version gives other text.
const clangVersion = "19.1.7"

func clang(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("clang-19")
	if err != nil {
		t.Skip("there is no clang-19 in PATH")
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out, []byte("version "+clangVersion)) {
		t.Skipf("clang-19 is not %s: %s", clangVersion, strings.SplitN(string(out), "\n", 2)[0])
	}
	return path
}

// The committed text is that of the committed source.
func TestPTXIsOfTheSource(t *testing.T) {
	openSources(t)
	out := filepath.Join(t.TempDir(), "verify.ptx")
	cmd := exec.Command("./generate.sh", out)
	cmd.Env = append(os.Environ(), "CLANG="+clang(t))
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("generate.sh: %v\n%s", err, msg)
	}
	now, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(now, ptxText) {
		t.Error("verify.ptx is not what generate.sh makes of verify.cu: run go generate ./gpu/kernel and commit both")
	}
}

// What the loader and an old driver rely on stands in the text itself.
func TestPTXSaysWhatItIs(t *testing.T) {
	for _, want := range []string{".version 6.3", ".target sm_75", ".address_size 64"} {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(want) + `$`).Match(ptxText) {
			t.Errorf("the PTX has no line %q", want)
		}
	}
	entries := regexp.MustCompile(`\.entry (\w+)\(\s*\.param \.align 8 \.b8 \w+\[(\d+)\]\s*\)`).FindAllStringSubmatch(string(ptxText), -1)
	var got []string
	for _, e := range entries {
		got = append(got, e[1]+" "+e[2])
	}
	want := []string{fmt.Sprint(EntryLanes, " ", ParamBytes), fmt.Sprint(EntryFinish, " ", ParamBytes)}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("entry points and sizes of their parameters are %q, want %q", got, want)
	}
	for _, word := range []string{"shfl", "bar.", ".shared", "atom", "%clock", "\x00"} {
		if bytes.Contains(ptxText, []byte(word)) {
			t.Errorf("the PTX has %q: a thread must depend on its number alone", word)
		}
	}
}

// NVIDIA's assembler takes the text for every architecture since sm_75, which
// is as far as one gets without a GPU.
func TestPTXAssembles(t *testing.T) {
	ptxas := os.Getenv("SEALSTONE_PTXAS")
	if ptxas == "" {
		t.Skip("SEALSTONE_PTXAS does not name a ptxas (it is in the PyPI package nvidia-cuda-nvcc)")
	}
	spills := regexp.MustCompile(`[1-9]\d* bytes spill`)
	for _, arch := range []string{"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"} {
		out, err := exec.Command(ptxas, "-v", "-arch="+arch, "verify.ptx", "-o", filepath.Join(t.TempDir(), "cubin")).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", arch, err, out)
		}
		if spills.Match(out) {
			t.Errorf("%s: registers are spilled\n%s", arch, out)
		}
	}
}
