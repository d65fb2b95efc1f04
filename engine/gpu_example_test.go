package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/driver"
)

// ExampleNamespace_GetToDevice reads a block into device memory; hash, k and v
// stand for what an inference engine knows of it.
func ExampleNamespace_GetToDevice() {
	read := func(ctx context.Context, store *engine.Store, space *engine.Namespace, hash []byte, k, v gpu.Span) {
		d, err := driver.Open(driver.Options{})
		if err != nil {
			log.Print(err) // no GPU here: Get reads to the host
			return
		}
		dev, err := gpu.OpenDevice(d, 0, gpu.Options{Events: store.DeviceEvent})
		if err != nil {
			log.Print(err)
			return
		}
		defer dev.Close(ctx)
		r := space.GetToDevice(ctx, dev, []engine.DeviceGetBlock{{Hash: hash, Parts: []engine.DevicePart{
			{Plane: "k", Spans: []gpu.Span{k}}, {Plane: "v", Spans: []gpu.Span{v}},
		}}}, engine.DeviceGetOptions{})[0]
		if r.Status != engine.StatusOK {
			log.Print(r.Err) // compute it; k and v are as they were
			return
		}
		fmt.Println("by", r.Path)
	}
	_ = read
}
