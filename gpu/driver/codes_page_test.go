package driver

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestCodesPage: the page of the operators has every code, as errors say it.
func TestCodesPage(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "gpu", "codes.md")
	var b strings.Builder
	b.WriteString(`# Codes of the GPU libraries

What errors, health and ` + "`sealstone probe --gpu`" + ` say of a failed call, with the number
of NVIDIA's headers. Written by ` + "`go test ./gpu/driver -run TestCodesPage -update`" + `.

A read by cuFile fails in three ways that mean the same: -1 with errno, -1 with a
code of 5001 and more in errno, or the negated number as the result.
"Lost" marks codes after which a GPU is gone for the process.

## cuFile

| code | name | what to do |
|---|---|---|
`)
	for _, n := range slices.Sorted(maps.Keys(cuFileCodes)) {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", n, cuFileCodes[n].name, cuFileCodes[n].advice)
	}
	b.WriteString("\n## CUDA\n\n| code | name | lost | what to do |\n|---|---|---|---|\n")
	for _, n := range slices.Sorted(maps.Keys(cudaCodes)) {
		lost := ""
		if cudaLost("cuMemAlloc_v2", n) {
			lost = "yes"
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", n, cudaCodes[n].name, lost, cudaCodes[n].advice)
	}
	b.WriteString("\n100, 101 and 999 are \"lost\" only after a GPU had been found: before, they say that there is none.\n")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Errorf("%s is not what the tables of this package say; run this test with -update", file)
	}
}
