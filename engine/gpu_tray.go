package engine

import (
	"context"
	"sync"
)

// Blocks go between the store and a GPU by trays: some blocks that lie on disk
// near one another, in one piece of pinned memory. Each tray is on a goroutine
// of its own, so one is read while another is copied. A tray takes its memory
// once and waits for no second piece, so trays cannot wait for one another.
const (
	trayBytesMax  = 4 << 20 // a larger block is a tray by itself
	trayBlocksMax = 256
	traysInFlight = 4
)

// cutTrays cuts a list into trays, by what each block takes in memory.
func cutTrays[T any](all []T, bytesOf func(T) int64) (trays [][]T) {
	from, held := 0, int64(0)
	for i, w := range all {
		n := bytesOf(w)
		if i > from && (held+n > trayBytesMax || i-from == trayBlocksMax) {
			trays = append(trays, all[from:i:i])
			from, held = i, 0
		}
		held += n
	}
	if from < len(all) {
		trays = append(trays, all[from:])
	}
	return trays
}

// eachTray calls do with every tray, several at a time, and returns when all
// have returned.
func eachTray[T any](ctx context.Context, trays [][]T, do func(ctx context.Context, tray []T)) {
	var wg sync.WaitGroup
	turns := make(chan struct{}, traysInFlight)
	for _, tray := range trays {
		turns <- struct{}{} // given back by each in its time: do has bounds of its own
		wg.Go(func() {
			defer func() { <-turns }()
			do(ctx, tray)
		})
	}
	wg.Wait()
}
