package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

// valueWait is how long a value waits for memory that others use. It is
// shorter than any timeout of a client, and a shed value is no loss.
const valueWait = time.Second

// memory is what values on their way in are kept in, outside the Go heap.
type memory struct {
	pool    *aligned.Pool
	charged atomic.Int64 // for long lists of short arguments, on the heap
	limit   int64        // of charged
	waits   atomic.Int64
	refused atomic.Int64
}

// chargeShare is the part of the memory for values that short arguments may
// have beside it.
const chargeShare = 8

func newMemory(limitBytes int64) *memory {
	return &memory{pool: aligned.NewPool(limitBytes), limit: limitBytes / chargeShare}
}

// Take implements resp.Memory. Only a command that holds nothing waits:
// commands that hold and wait could wait for one another.
func (m *memory) Take(sizeBytes int, holds bool) resp.Buffer {
	b, err := m.pool.TryGet(sizeBytes)
	if err != nil && !holds {
		m.waits.Add(1)
		ctx, cancel := context.WithTimeout(context.Background(), valueWait)
		defer cancel()
		b, err = m.pool.Get(ctx, sizeBytes)
	}
	if err != nil {
		m.refused.Add(1)
		return nil
	}
	return b
}

// Charge implements resp.Memory.
func (m *memory) Charge(bytes int64) bool {
	if m.charged.Add(bytes) <= m.limit {
		return true
	}
	m.charged.Add(-bytes)
	m.refused.Add(1)
	return false
}

// Refund implements resp.Memory.
func (m *memory) Refund(bytes int64) { m.charged.Add(-bytes) }

// inUse is what commands hold now, in bytes.
func (m *memory) inUse() int64 {
	used, _, _ := m.pool.Stats()
	return used + m.charged.Load()
}
