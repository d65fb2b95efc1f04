package ctest

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func header(t *testing.T) string {
	t.Helper()
	p, err := os.ReadFile("../sealstone.h")
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// TestSymbols: the library exports the functions of the header and nothing
// else, needs the C library alone, knows nothing of NVML, stays loaded, and
// bears the ABI's version.
func TestSymbols(t *testing.T) {
	f, err := elf.Open(bin(t) + "/libsealstone.so.1")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var exported []string
	for _, s := range symbols {
		if strings.Contains(strings.ToLower(s.Name), "nvml") {
			t.Errorf("symbol %s: NVML cannot live in a library", s.Name)
		}
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			exported = append(exported, s.Name)
		}
	}
	var declared []string
	for _, m := range regexp.MustCompile(`(?m)^(?:sealstone_status|uint32_t|const char \*)\s?(sealstone_\w+)\(`).FindAllStringSubmatch(header(t), -1) {
		declared = append(declared, m[1])
	}
	slices.Sort(exported)
	slices.Sort(declared)
	if !slices.Equal(exported, declared) {
		t.Errorf("exported %v\ndeclared %v", exported, declared)
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, lib := range needed {
		if !slices.Contains([]string{"libc.so.6", "libpthread.so.0", "libdl.so.2", "libresolv.so.2"}, lib) {
			t.Errorf("it needs %s", lib)
		}
	}
	if soname, err := f.DynString(elf.DT_SONAME); err != nil || !slices.Equal(soname, []string{"libsealstone.so.1"}) {
		t.Errorf("SONAME %v, %v", soname, err)
	}
	if flags, err := f.DynValue(elf.DT_FLAGS_1); err != nil || len(flags) != 1 || elf.DynFlag1(flags[0])&elf.DF_1_NODELETE == 0 {
		t.Errorf("DT_FLAGS_1 %v, %v: the library could be unloaded under its threads", flags, err)
	}
}

// TestHeaderIsClean: it compiles alone, as old C and as C++, without a warning.
func TestHeaderIsClean(t *testing.T) {
	needTools(t, "cc", "c++")
	for _, args := range [][]string{{"cc", "-std=c99", "-x", "c"}, {"c++", "-std=c++11", "-x", "c++"}} {
		cmd := exec.Command(args[0], append(args[1:], "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror", "-fsyntax-only", "../sealstone.h")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// TestLoadsInPython with all symbols bound at once, as an interpreter may.
func TestLoadsInPython(t *testing.T) {
	needTools(t, "python3")
	program := "import ctypes, os, sys\nl = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)\nassert l.sealstone_abi_version() == 1\n"
	cmd := exec.Command("python3", "-c", program, bin(t)+"/libsealstone.so.1")
	cmd.Env = append(os.Environ(), "LD_BIND_NOW=1")
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPkgConfig: what is beside the library says how to build with it, from
// wherever the three files were put, and nothing in it names this machine.
func TestPkgConfig(t *testing.T) {
	needTools(t, "cc", "pkg-config")
	dir := t.TempDir()
	for _, name := range []string{"libsealstone.so.1", "libsealstone.so", "sealstone.h", "sealstone.pc"} {
		p, err := os.ReadFile(filepath.Join(bin(t), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), p, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	config := exec.Command("pkg-config", "--cflags", "--libs", "sealstone")
	config.Env = append(os.Environ(), "PKG_CONFIG_PATH="+dir)
	flags, err := config.Output()
	if err != nil {
		t.Fatal(err)
	}
	source, program := filepath.Join(dir, "p.c"), filepath.Join(dir, "p")
	text := "#include <sealstone.h>\nint main(void) { return sealstone_abi_version() != SEALSTONE_ABI_VERSION; }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{source, "-o", program}, strings.Fields(string(flags))...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc %v: %v\n%s", args, err, out)
	}
	run := exec.Command(program)
	run.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDocumentedProgram: the program of docs/client-c.md compiles as C and as
// C++ and does what the page says.
func TestDocumentedProgram(t *testing.T) {
	page, err := os.ReadFile(root + "/docs/client-c.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, ok := strings.Cut(string(page), "```c\n")
	program, _, ends := strings.Cut(program, "```")
	if !ok || !ends {
		t.Fatal("docs/client-c.md has no program")
	}
	for _, c := range []struct{ cc, name, std string }{{"cc", "example.c", "-std=c99"}, {"c++", "example.cc", "-std=c++11"}} {
		source := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		built := compile(t, c.cc, []string{source}, c.std)
		for _, want := range []string{"stored, read back and verified\n", "found from before, read back and verified\n"} {
			cmd := exec.Command(built, filepath.Dir(source)+"/store")
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
				t.Errorf("%s: %v, %q, want %q", c.name, err, out, want)
			}
		}
	}
}
