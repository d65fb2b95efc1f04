package cli

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress is a bar on a terminal, and nothing elsewhere: a log has no use
// for it.
type progress struct {
	bar *progressbar.ProgressBar
}

// newProgress makes the bar of a job with so many steps.
func newProgress(env *environment, quiet bool, what string) *progress {
	f, ok := env.stderr.(*os.File)
	if quiet || !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{bar: newBar(f, what)}
}

func newBar(w io.Writer, what string) *progressbar.ProgressBar {
	return progressbar.NewOptions64(1,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish())
}

// set moves the bar to done of total steps.
func (p *progress) set(done, total int64) {
	if p.bar == nil || total <= 0 {
		return
	}
	if p.bar.GetMax64() != total {
		p.bar.ChangeMax64(total)
	}
	p.bar.Set64(done) //nolint:errcheck // a bar that cannot be drawn is no failure of the work
}

// describe says what is done now.
func (p *progress) describe(what string) {
	if p.bar != nil {
		p.bar.Describe(what)
	}
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Finish() //nolint:errcheck // see set
	}
}
