package engine

import (
	"context"

	"github.com/sealstone/sealstone/gpu"
)

// device is what the store asks of a GPU. Tests put one of their own behind it.
type device interface {
	// takePinned lends memory that the GPU copies from and to. It waits until
	// ctx ends for what others have.
	takePinned(ctx context.Context, sizeBytes int) (pinnedMemory, error)
	// copyIn and copyOut answer each item, and when they return nothing touches
	// the memory of any of them.
	copyIn(ctx context.Context, items []gpu.CopyIn)
	copyOut(ctx context.Context, items []gpu.CopyOut)
	// comparesCopies: the sums that come with an item are compared on the GPU.
	comparesCopies() bool
	// countFellBack tells of a block that copyIn brought after a read of a
	// direct path had failed.
	countFellBack(bytes int64)
	// route is the direct path from a directory, or nil: host bounce only.
	route(dir string) directRoute
}

// pinnedMemory begins at a page.
type pinnedMemory interface {
	Bytes() []byte
	Free()
}

// directRoute is a direct path that was proven.
type directRoute interface {
	// read answers each item; the destination of one that failed is untouched.
	read(ctx context.Context, items []gpu.DirectRead)
	// forget closes what is kept of a file that goes away.
	forget(key gpu.FileID)
}

// gpuDevice is the device of package gpu.
type gpuDevice struct{ *gpu.Device }

func (d gpuDevice) takePinned(ctx context.Context, sizeBytes int) (pinnedMemory, error) {
	mem, err := d.TakePinned(ctx, sizeBytes)
	if err != nil {
		return nil, err
	}
	return mem, nil
}

func (d gpuDevice) copyIn(ctx context.Context, items []gpu.CopyIn)   { d.CopyIn(ctx, items) }
func (d gpuDevice) copyOut(ctx context.Context, items []gpu.CopyOut) { d.CopyOut(ctx, items) }
func (d gpuDevice) comparesCopies() bool                             { return d.VerifiesCopies() }
func (d gpuDevice) countFellBack(bytes int64)                        { d.CountFellBack(1, bytes) }

func (d gpuDevice) route(dir string) directRoute {
	if r := d.Route(dir); r != nil {
		return gpuRoute{d.Device, r}
	}
	return nil
}

// gpuRoute is a direct path of package gpu.
type gpuRoute struct {
	dev *gpu.Device
	r   *gpu.Route
}

func (r gpuRoute) read(ctx context.Context, items []gpu.DirectRead) {
	r.dev.ReadDirect(ctx, r.r, items)
}
func (r gpuRoute) forget(id gpu.FileID) { r.r.Forget(id) }
