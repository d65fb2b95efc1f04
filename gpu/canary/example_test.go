package canary_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/canary"
	"github.com/sealstone/sealstone/gpu/driver"
)

// The trial of a store's directory, once at the start of an inference engine.
func Example() {
	const dir = "/mnt/nvme/store"
	d, err := driver.Open(driver.Options{})
	if err != nil {
		fmt.Println("no GPU here")
		return
	}
	device, err := gpu.OpenDevice(d, 0, gpu.Options{})
	if err != nil {
		return
	}
	defer device.Close(context.Background())
	p, err := canary.New(canary.Options{CacheDir: "/var/cache/sealstone"})
	if err != nil {
		return
	}
	v, err := p.Probe(context.Background(), device.UUID(), dir)
	if err != nil {
		return
	}
	// A refusal needs no more than this: reads go through the host.
	route := device.AllowDirect(dir, v)
	slog.Info("direct reads", "verdict", v.String(), "route", route.Status().State)
}
