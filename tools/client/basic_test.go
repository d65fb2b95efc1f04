package client

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server"
)

// TestRoundTrip: blocks by every way that bytes can go, from and to memory of
// every kind.
func TestRoundTrip(t *testing.T) {
	r := newRig(t, server.Options{})
	for _, address := range []string{r.unix, r.tcp} {
		c := mustDial(t, address, Options{})
		n := mustSpace(t, c)
		var shared *Region
		if address == r.unix {
			shared = mustRegion(t, c, 8<<20)
		}
		for k, size := range []int{2, 4096, 8192, 100_000, 1 << 20, 4 << 20} {
			for j, from := range [][]byte{make([]byte, size), sharedBytes(shared, size)} {
				if from == nil {
					continue
				}
				id := 1000*len(address) + 10*k + j
				copy(from, contentOf(id, size))
				mustPut(t, n, blockIn(id, from))
				clear(from)
				for _, wait := range []bool{false, true} {
					for i, to := range [][]byte{make([]byte, size), sharedBytes(shared, size)} {
						if to == nil {
							continue
						}
						res := n.Get(context.Background(), []engine.GetBlock{wantedIn(id, to)}, engine.GetOptions{WaitForDevice: wait, WantSeal: true})[0]
						name := fmt.Sprintf("%s %d bytes from %d to %d wait %v", address, size, j, i, wait)
						if res.Status != engine.StatusOK || !bytes.Equal(to, contentOf(id, size)) || res.Bytes != int64(size) {
							t.Fatalf("%s: %v %v, %d bytes", name, res.Status, res.Err, res.Bytes)
						}
						want := engine.SealOf(wantedIn(id, to).Parts[0].Spans[0], wantedIn(id, to).Parts[1].Spans[0])
						if res.Seal == nil || res.Seal.ContentID != want.ContentID {
							t.Errorf("%s: seal %v", name, res.Seal)
						}
						clear(to)
					}
				}
			}
		}
	}
	if st := r.store.Stats(); st.StraightBytes == 0 {
		t.Error("nothing was read straight into shared memory")
	}
}

func sharedBytes(r *Region, size int) []byte {
	if r == nil {
		return nil
	}
	return r.Bytes()[:size]
}
