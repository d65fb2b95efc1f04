package cli

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/sealstone/sealstone/tools/internal/replay"
)

// TestFormatVersions compares with the files: every artifact has its version
// behind a magic of 8 bytes.
func TestFormatVersions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := replay.OpenEngine(t.Context(), replay.Config{Dir: dir, BlockBytes: 4096, CapacityBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	hash := make([]byte, 32)
	for _, r := range s.Put(t.Context(), []replay.Block{{Hash: hash, Data: make([]byte, 4096)}}) {
		if !r.OK {
			t.Fatal(r.Err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	patterns := map[string]string{
		"log": "wal/*.wal", "namespaces": "NAMESPACES", "segment": "segments/*/*.seg", "store": "STORE", "tombstones": "segments/*/*.del",
	}
	if len(patterns) != len(formatVersions) {
		t.Errorf("%d artifacts are compared, %d reported", len(patterns), len(formatVersions))
	}
	for name, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no file %s, %v", name, pattern, err)
			continue
		}
		b, err := os.ReadFile(files[0])
		if err != nil || len(b) < 10 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
			continue
		}
		if got := binary.LittleEndian.Uint16(b[8:]); got != formatVersions[name] || got == 0 {
			t.Errorf("%s: version %d in the file, %d reported", name, got, formatVersions[name])
		}
	}
}
