package client

import (
	"testing"

	"github.com/sealstone/sealstone/tools/internal/server"
)

// TestRegisterTwice: memory that is registered already is refused, and the
// server keeps nothing of the tries.
func TestRegisterTwice(t *testing.T) {
	r := newRig(t, server.Options{})
	c := mustDial(t, r.unix, Options{Connections: 1})
	region := mustRegion(t, c, 8192)
	before := openFiles(t)
	for range 100 { // more than a connection may have
		if again, err := c.RegisterMemory(region.Bytes(), int(region.file.Fd())); err == nil {
			again.Release()
			t.Fatal("memory was registered twice")
		}
	}
	if st := r.server.Stats().Shared; st.Regions != 1 || st.Refused != 0 {
		t.Errorf("%d regions are left at the server, %d were refused there", st.Regions, st.Refused)
	}
	if now := openFiles(t); now > before+8 {
		t.Errorf("%d descriptors are open, %d were before", now, before)
	}
	mustPut(t, mustSpace(t, c), blockIn(1, region.Bytes()))
}
