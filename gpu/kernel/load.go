package kernel

import (
	"context"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/gpu/driver"
)

// LoadTimeout bounds Load where its context has no deadline. Compiling the PTX
// takes a fraction of a second, and the driver keeps the result.
const LoadTimeout = 30 * time.Second

// Load has the driver compile the kernel for the device of c, which has this
// UUID, and proves it by known vectors. An error is a *NotProvenError: sums must
// then be taken in another way. It also matches driver.ErrDeviceLost if the
// device died of it.
//
// A call into the driver cannot be given up. When ctx ends first, Load returns,
// and what it began ends in the background: its memory is freed when the driver
// returns, and never if that never happens.
func Load(ctx context.Context, c *driver.Context, uuid [16]byte) (*Kernel, error) {
	return load(ctx, c, uuid)
}

func load(ctx context.Context, c device, uuid [16]byte) (*Kernel, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, LoadTimeout, fmt.Errorf("the driver took more than %v", LoadTimeout))
	defer cancel()
	type outcome struct {
		k   *Kernel
		err error
	}
	// Unbuffered: either Load takes the outcome, or the goroutine sees that
	// Load has gone and closes the kernel itself.
	done := make(chan outcome)
	go func() {
		k, err := loadAndProve(c, uuid)
		select {
		case done <- outcome{k, err}:
		case <-ctx.Done():
			if k != nil {
				_ = k.Close() // nobody is left to tell
			}
		}
	}()
	select {
	case o := <-done:
		return o.k, o.err
	case <-ctx.Done():
		return nil, &NotProvenError{UUID: uuid, Step: StepTime, Err: context.Cause(ctx)}
	}
}

// loadAndProve may block as long as the driver does.
func loadAndProve(c device, uuid [16]byte) (*Kernel, error) {
	began := time.Now()
	k, log, err := loadModule(c)
	if err != nil {
		return nil, &NotProvenError{UUID: uuid, Step: StepLoad, Log: log, Err: err}
	}
	k.proof.LoadTime = time.Since(began)
	if err := k.prove(uuid); err != nil {
		_ = k.Close() // the reason matters more
		return nil, err
	}
	k.proof.Time = time.Since(began)
	return k, nil
}

func loadModule(c device) (k *Kernel, log string, err error) {
	k = &Kernel{c: c}
	if k.module, log, err = c.ModuleLoad(ptxText); err != nil {
		return nil, log, err
	}
	if k.lanes, err = c.ModuleFunction(k.module, EntryLanes); err == nil {
		k.finish, err = c.ModuleFunction(k.module, EntryFinish)
	}
	if err != nil {
		_ = k.Close() // the reason matters more
		return nil, log, err
	}
	return k, log, nil
}
