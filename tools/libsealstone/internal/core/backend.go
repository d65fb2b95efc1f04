package core

import (
	"context"
	"encoding/json"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
)

// backend is a store, in this process or behind a server.
type backend interface {
	mode() string
	namespace(ctx context.Context, l engine.Layout, tenant string, o engine.NamespaceOptions) (space, error)
	// register makes memory known; the function it returns ends that.
	register(p []byte, fd int) (release func(), err error)
	stats(ctx context.Context) (json.RawMessage, error)
	health(ctx context.Context) Health
	events(after uint64) ([]engine.Event, error)
	// close may be called again after an error that is engine.ErrClosing.
	close(ctx context.Context) error
}

// space is a namespace of a backend.
type space interface {
	Put(ctx context.Context, blocks []engine.PutBlock, o engine.PutOptions) []engine.PutResult
	Get(ctx context.Context, blocks []engine.GetBlock, o engine.GetOptions) []engine.GetResult
	Has(ctx context.Context, hashes [][]byte) []engine.Status
	Touch(ctx context.Context, hashes [][]byte) []engine.Status
	Drop(ctx context.Context, hashes [][]byte) []engine.Result
	Info() engine.NamespaceInfo
	Layout() engine.Layout
	Differences() []layout.Difference
	Warnings() []string

	match(ctx context.Context, hashes [][]byte) (lease, error)
	lookupNow(hashes [][]byte) []engine.Status
	bump(ctx context.Context) (space, error)
	// onlyPlane is the name of the plane where the layout has just one, or "".
	onlyPlane() string
}

// lease is what a match keeps.
type lease interface {
	Blocks() int
	Release()
	renew(ctx context.Context) bool
}

func onlyPlane(l *engine.Layout) string {
	if len(l.Planes) == 1 {
		return l.Planes[0].Name
	}
	return ""
}

// HealthState is how much of its work a store does, as sealstone.h numbers it:
// those of the engine, and one more.
type HealthState int32

// Unreached: the server does not answer.
const Unreached HealthState = 5

// Health is the state of a store and why it is not better.
type Health struct {
	State   HealthState `json:"-"`
	Name    string      `json:"state"`
	Reasons []string    `json:"reasons"`
}
