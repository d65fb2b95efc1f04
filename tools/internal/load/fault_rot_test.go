package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// rotten is how many values are damaged: fewer than make a store suspect its
// device and stop answering.
const rotten = 6

// TestFaultServerRot: bytes on the disk change under a server at work. Those
// values, and no others, are answered as ones that are not there.
func TestFaultServerRot(t *testing.T) {
	tally := faulttest.New(t)
	dir := t.TempDir()
	c := childConfig{Dir: filepath.Join(dir, "store"), Socket: filepath.Join(dir, "s"), Store: largeStore(), Server: smallServer()}
	c.Store.HostCacheBytes = 0 // else the disk is not asked
	k := startChild(t, c)
	load := Config{
		Servers: []string{"unix:" + c.Socket}, Connections: 8, Keys: 64, ValueBytes: []int{3000, 20_000, 200_000},
		Prefix: "rot", History: NewHistory(64), Duration: 300 * time.Millisecond,
	}
	for load.History.Stored() < 2*rotten {
		if _, err := Run(t.Context(), load); err != nil {
			t.Fatal(err)
		}
	}
	other := load
	other.Prefix, other.History = "other", NewHistory(64)
	stop := background(t, other)
	k.settles("others work", works(30))
	for key, done := 0, 0; done < rotten; key++ {
		e := &load.History.keys[key]
		if !e.stored {
			continue
		}
		fault := tally.Try(fmt.Sprintf("a byte of value %d is flipped", done))
		if flipValue(t, c.Dir, values{load.Prefix, load.ValueBytes}, key, e.least.Load()) {
			fault.Fire()
		}
		r, err := Check(t.Context(), load)
		if err != nil {
			t.Fatal(err)
		}
		tally.WrongBytes(r.Wrong)
		// Check notes the lost one, so each is counted once.
		if r.Bad() == 0 && r.Lost == 1 && !e.stored {
			fault.Survive()
		} else {
			t.Errorf("after damage to key %d: %+v, %d lost: %q", key, r.Values, r.Lost, r.Examples)
		}
		done++
	}
	r := stop()
	sound(t, r)
	if s := k.state(); s.Server.Kinds["plain"].Corrupt == 0 || s.Store.Quarantined != rotten {
		t.Errorf("%d corrupt answers counted, %d blocks in quarantine, want %d", s.Server.Kinds["plain"].Corrupt, s.Store.Quarantined, rotten)
	}
	k.stop()
}

// flipValue flips a bit in the middle of a version's bytes, wherever they lie
// in a segment.
func flipValue(t *testing.T, dir string, v values, key int, version uint64) bool {
	t.Helper()
	var head []byte
	n := v.sizeOf(key, version)
	for _, x := range []uint64{uint64(key), version, uint64(n)} {
		head = binary.LittleEndian.AppendUint64(head, x)
	}
	// The bytes behind the head tell the value from one of another prefix.
	want := v.fill(nil, key, version)[:min(n, 256)]
	flipped := false
	err := filepath.WalkDir(filepath.Join(dir, "segments"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || flipped || !strings.HasSuffix(path, ".seg") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := bytes.Index(b, want)
		if at < 0 || !bytes.HasPrefix(want, head) {
			return nil
		}
		at += n / 2
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte{b[at] ^ 0x10}, int64(at))
		flipped = err == nil
		for _, e := range []error{err, f.Sync(), f.Close()} {
			if e != nil {
				return e
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return flipped
}
