package canary

import (
	"context"
	"fmt"
	"reflect"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/driver"
)

// facts gathers keys of verdicts in this process. For that it loads the
// libraries and initialises CUDA; it opens no context, and cuFile stays closed.
// One goroutine at a time uses it, beside the one that it starts.
type facts struct {
	o Options
	d *driver.Driver
	f *driver.CuFile
	// running is a call that has not come back yet. Until it has, no other
	// one begins.
	running chan keyResult
}

type keyResult struct {
	key gpu.VerdictKey
	f   *finding
}

// key is the key of a request. Calls into a driver can hang, so they run
// beside, and their time is bounded.
func (p *facts) key(ctx context.Context, r request) (gpu.VerdictKey, *finding) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.o.Timeout, fmt.Errorf("no answer within %v", p.o.Timeout))
	defer cancel()
	for {
		late := p.running != nil
		if !late {
			p.running = make(chan keyResult, 1)
			go func(done chan<- keyResult) {
				k, f := p.gather(r)
				done <- keyResult{k, f}
			}(p.running)
		}
		select {
		case got := <-p.running:
			p.running = nil
			if !late { // else it is the answer to another question
				return got.key, got.f
			}
		case <-ctx.Done():
			return gpu.VerdictKey{GPU: r.GPU}, found(nameHung, "the driver does not answer: %v", context.Cause(ctx))
		}
	}
}

func (p *facts) gather(r request) (k gpu.VerdictKey, f *finding) {
	k.GPU = r.GPU
	var err error
	if p.d == nil {
		if p.d, err = driver.Open(driver.Options{CUDAPath: p.o.CUDAPath, CuFilePath: p.o.CuFilePath}); err != nil {
			p.d = nil
			return k, failed("open the driver", err)
		}
	}
	if p.f == nil {
		if p.f, err = p.d.CuFile(); err != nil {
			p.f = nil
			return k, failed("load libcufile", err)
		}
	}
	if k, err = placeKey(p.d, p.f, r.GPU, r); err != nil {
		return k, found(nameKey, "%v", err)
	}
	return k, nil
}

// differingKey names the fields in which two keys differ, with both values.
func differingKey(a, b gpu.VerdictKey) string {
	text := ""
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if x.Field(i).Interface() != y.Field(i).Interface() {
			text += fmt.Sprintf("%s is %q here and %q there; ", x.Type().Field(i).Name, fmt.Sprint(x.Field(i)), fmt.Sprint(y.Field(i)))
		}
	}
	return text
}
