package fsmatrix

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
)

// TestFaultScrubDevice: a byte rots on the device while the page cache of the
// file system still holds the page as it was. Whoever reads the file the usual
// way sees nothing; a scrub looks at the device, and takes the block out.
func TestFaultScrubDevice(t *testing.T) {
	needRoot(t)
	ctx := t.Context()
	under := tmpfs(t, imageBytes/mib+64)
	dev := loop(t, under, imageBytes, 512)
	makeFS(t, "ext4", dev)
	dir := filepath.Join(mount(t, dev, "ext4", ""), "store")
	s, err := engine.Open(dir, options(engine.PathPread))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	n, err := space(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	const blocks, rotten = 16, 6
	if err := allOK(put(ctx, n, 0, blocks, true)); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if r, err := s.ScrubNow(ctx, engine.ScrubOptions{}); err != nil || r.Blocks != blocks || len(r.Findings) != 0 || r.CachedBytes != 0 {
		t.Fatalf("before: %+v, %v", r, err)
	}

	// What the block holds is found once in the file and once on the device.
	part := content(rotten)[100_000:][:64]
	file, at := segmentWith(t, dir, part) // reads all segments into the page cache
	image := filepath.Join(under, "image")
	fault := counted(t, "a byte of the device, under a cached page")
	rot(t, image, part)
	fault.Fire()

	if p := readAt(t, file, at, len(part)); !bytes.Equal(p, part) {
		t.Fatal("the page cache does not hold what the test needs")
	}
	r, err := s.ScrubNow(ctx, engine.ScrubOptions{})
	if err != nil || r.Bad != 1 || len(r.Findings) != 1 || !bytes.Equal(r.Findings[0].Hash, hashOf(rotten)) {
		t.Errorf("after: %+v, %v", r, err)
	}
	got, err := get(ctx, n, 0, blocks)
	if err != nil {
		t.Error(err)
	}
	for id, g := range got {
		want := engine.StatusOK
		if id == rotten {
			want = engine.StatusMiss
		}
		if g.Status != want && !(id == rotten && g.Status == engine.StatusCorrupt) {
			t.Errorf("block %d: %v %v", id, g.Status, g.Err)
		}
	}
}

// segmentWith finds the segment that holds some bytes, and where.
func segmentWith(t *testing.T, dir string, part []byte) (file string, at int64) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, "segments"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".seg") {
			return err
		}
		p, err := os.ReadFile(path)
		if i := bytes.Index(p, part); i >= 0 {
			file, at = path, int64(i)
		}
		return err
	})
	if err != nil || file == "" {
		t.Fatalf("no segment holds the block: %v", err)
	}
	return file, at
}

// rot changes a byte of the part where the image of a device holds it.
func rot(t *testing.T, image string, part []byte) {
	t.Helper()
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 1<<20+len(part))
	for off := int64(0); off < imageBytes; off += 1 << 20 {
		n, _ := f.ReadAt(buf, off)
		if i := bytes.Index(buf[:n], part); i >= 0 {
			if _, err := f.WriteAt([]byte{part[0] ^ 0x10}, off+int64(i)); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("the device does not hold the block")
}

func readAt(t *testing.T, file string, at int64, n int) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, n)
	if _, err := f.ReadAt(p, at); err != nil {
		t.Fatal(err)
	}
	return p
}
