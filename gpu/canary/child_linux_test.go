//go:build cgo

package canary

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// requestFor asks for a trial on the first GPU of the doubles.
func requestFor(t *testing.T, d *gputest.Doubles) request {
	t.Helper()
	r := goodRequest()
	r.GPU, r.Dir, r.LogDir, r.Root = uuidOf(t, d.Open(t), 0), t.TempDir(), t.TempDir(), bareMetal(t)
	r.CUDAPath, r.CuFilePath, r.TimeoutMs = d.CUDAPath, d.CuFilePath, 60000
	return r
}

// runChild is Child in this process. The function that it returns says what the
// child said, once it returned.
func runChild(t *testing.T, ctx context.Context, r request) (in io.Closer, result func() (answer, error, error)) {
	t.Helper()
	reader, writer := io.Pipe()
	var said bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- Child(ctx, reader, &said) }()
	if _, err := io.WriteString(writer, encodeRequest(t, r)); err != nil {
		t.Fatal(err)
	}
	return writer, func() (answer, error, error) {
		childErr := <-done
		_ = writer.Close()
		a, err := parseAnswer(said.Bytes(), r.Nonce)
		return a, err, childErr
	}
}

func TestChild(t *testing.T) {
	d := gputest.Build(t)
	_, result := runChild(t, context.Background(), requestFor(t, d))
	a, err, childErr := result()
	if err != nil || childErr != nil || a.verdict.State != gpu.VerdictProven || !a.tried || a.hung {
		t.Errorf("%+v (%v), child %v", a, err, childErr)
	}
	d.Check(t)
}

// TestFaultChildHangs: a call that does not come back is told, with where it
// is, when the trial is to end and when the parent went away.
func TestFaultChildHangs(t *testing.T) {
	tally := faulttest.New(t)
	for _, parentGoes := range []bool{false, true} {
		if parentGoes && testing.Short() {
			break // each takes two seconds
		}
		d := gputest.Build(t)
		fault := tally.Try("a read that hangs")
		d.Configure("cuFileRead=hang@3")
		r := requestFor(t, d)
		r.TimeoutMs = 30 * 60 * 1000
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		in, result := runChild(t, ctx, r)
		d.WaitHanging(1)
		fault.Fire()
		over := errors.New("over")
		if parentGoes {
			_ = in.Close()
		} else {
			cancel(over)
		}
		a, err, childErr := result()
		if err != errNoVerdict || !a.hung || !a.tried || !strings.Contains(a.at, "read 3 of") {
			t.Errorf("%+v (%v)", a, err)
		}
		if errors.Is(childErr, errParentGone) != parentGoes || errors.Is(childErr, over) == parentGoes {
			t.Errorf("child: %v", childErr)
		}
		// The trial is still there; it ends now, and cleans up.
		d.Release()
		waitForTrial(t, d)
		mustBeEmpty(t, r.Dir)
		fault.Survive()
	}
}

// waitForTrial waits until a trial that its child left behind has given
// everything back.
func waitForTrial(t *testing.T, d *gputest.Doubles) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(d.Leaks()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still there: %q", d.Leaks())
		}
	}
}

// TestChildInterrupted: a trial that is only slow, or not wanted any more, is
// no hang.
func TestChildInterrupted(t *testing.T) {
	d := gputest.Build(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("not wanted"))
	_, result := runChild(t, ctx, requestFor(t, d))
	a, err, childErr := result()
	if err != nil || childErr != nil || a.hung || a.verdict.Name != nameInterrupted || !strings.Contains(a.verdict.Reason, "not wanted") {
		t.Errorf("%+v (%v), child %v", a, err, childErr)
	}
	d.Check(t)
}

// TestProbeFromManyGoroutines: one trial is done, all get its verdict.
func TestProbeFromManyGoroutines(t *testing.T) {
	p := scripted(t, "proven", here, nil)
	dir := t.TempDir()
	var mu sync.Mutex
	var wg sync.WaitGroup
	fresh := 0
	for range 8 {
		wg.Go(func() {
			v, err := p.Probe(context.Background(), testGPU, dir)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || v.State != gpu.VerdictProven {
				t.Errorf("%v (%v)", v, err)
			}
			if !v.Cached {
				fresh++
			}
			_ = p.Verdict(testGPU, dir)
		})
	}
	wg.Wait()
	if fresh != 1 {
		t.Errorf("%d trials, want 1", fresh)
	}
}
