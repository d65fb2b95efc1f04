package load

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// TestFaultServerShed: a store that takes no more writes sheds them. Every SET
// is answered +OK; what it was to replace is gone and never read again.
func TestFaultServerShed(t *testing.T) {
	tally := faulttest.New(t)
	dir := t.TempDir()
	c := childConfig{Dir: filepath.Join(dir, "store"), Socket: filepath.Join(dir, "s"), Store: largeStore(), Server: smallServer()}
	c.Store.WriteBudgetBytesPerDay = 4 << 20
	k := startChild(t, c)
	fault := tally.Try("the write budget of the day is spent")
	stop := background(t, Config{Servers: []string{"unix:" + c.Socket}, Connections: 16, Keys: 64, ValueBytes: []int{64, 5000, 100_000}})
	k.settles("values are shed", func(s childState) bool {
		return s.Server.Kinds["plain"].Shed > 30 && s.Server.Kinds["plain"].Stored > 0
	})
	fault.Fire()
	time.Sleep(100 * time.Millisecond)
	r := stop()
	tally.WrongBytes(r.Wrong)
	if r.Bad() == 0 && r.AfterExists == 0 && r.Broken == 0 && r.Commands["SET"].Errors == 0 && r.Right > 0 {
		fault.Survive()
	} else {
		t.Errorf("%+v", r)
	}
	k.stop()
}
