package cli

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress is a bar on a terminal, and nothing elsewhere: a log has no use
// for it.
type progress struct {
	bar *progressbar.ProgressBar

	mu   sync.Mutex // of what follows, and of the order of calls on bar
	what string
}

// newProgress makes the bar of a job with so many steps.
func newProgress(env *environment, quiet bool, what string) *progress {
	f, ok := env.stderr.(*os.File)
	if quiet || !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{bar: newBar(f, what, 100*time.Millisecond)}
}

func newBar(w io.Writer, what string, throttle time.Duration) *progressbar.ProgressBar {
	return progressbar.NewOptions64(1,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(throttle),
		progressbar.OptionClearOnFinish())
}

// set moves the bar to done of total steps. A full bar would be gone for good,
// and there may be another part of the job; end fills it.
func (p *progress) set(done, total int64) {
	if p.bar == nil || total <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar.GetMax64() != total {
		p.bar.ChangeMax64(total)
	}
	p.bar.Set64(min(done, total-1)) //nolint:errcheck // a bar that cannot be drawn is no failure of the work
}

// describe says what is done now. Each part of a job begins at 0.
func (p *progress) describe(what string) {
	if p.bar == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if what != p.what {
		p.what = what
		p.bar.Reset()
		p.bar.Describe(what)
	}
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Finish() //nolint:errcheck // see set
	}
}
