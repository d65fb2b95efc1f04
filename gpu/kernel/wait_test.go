package kernel

import (
	"testing"
	"time"
)

// waitUntil waits for a condition that must come; the bound only catches hangs.
func waitUntil(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("waited a minute in vain") // not Fatal: any goroutine may wait
			return
		}
	}
}
