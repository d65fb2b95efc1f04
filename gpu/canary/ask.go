package canary

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sealstone/sealstone/gpu"
)

// judgeAnswer turns what came of a child into a verdict. Only an answer that is
// whole (err is nil), and about this very place, can prove anything. asked is
// why the parent stopped listening, if it did.
func judgeAnswer(v gpu.Verdict, a answer, err, asked error, lastWords func() string) gpu.Verdict {
	v.Tried = a.tried
	switch {
	case err == nil:
		return adopt(v, *a.verdict)
	case !errors.Is(err, errNoVerdict):
		return refuse(v, found(nameAnswer, "the child's answer makes no sense (at: %s): %v", a.at, err))
	case a.hung, errors.Is(asked, os.ErrDeadlineExceeded):
		return refuse(v, found(nameHung, "the trial hung (at: %s): the GPU driver, nvidia-fs or the device does not come back; see the kernel's log", a.at))
	case asked != nil:
		return refuse(v, found(nameInterrupted, "no answer (at: %s): %v", a.at, asked))
	}
	return refuse(v, found(nameDied, "the child died (at: %s): %s", a.at, lastWords()))
}

// adopt takes the child's verdict if it is about the place that this process
// means. A refusal may come before the child knew where it is.
func adopt(v, said gpu.Verdict) gpu.Verdict {
	if (said.State == gpu.VerdictProven || said.Tried) && said.Key != v.Key {
		v.Tried = said.Tried
		return refuse(v, found(nameChanged, "the child found itself in another place than this process: %s", differingKey(v.Key, said.Key)))
	}
	said.Key, said.Cached = v.Key, false
	return said
}

// settle says in the verdict what became of the child.
func (p *Prober) settle(c childProcess, ended bool, v *gpu.Verdict) {
	if !ended {
		c.release()
		p.abandoned = append(p.abandoned, c)
		v.Notes = append(v.Notes, "the child cannot be ended: it hangs within the kernel; its file is left in the directory until it ends")
		return
	}
	c.release()
	if err := c.clean(); err != nil {
		v.Notes = append(v.Notes, fmt.Sprintf("something is left behind: %v", err))
	}
}

// reap looks after children that hung, as they may have ended since.
func (p *Prober) reap() {
	left := p.abandoned[:0]
	for _, c := range p.abandoned {
		if c.poll() {
			_ = c.clean() // nobody is there to tell
			continue
		}
		left = append(left, c)
	}
	p.abandoned = left
}

// tooMany refuses to start another child where too many hang already.
func (p *Prober) tooMany() *finding {
	if len(p.abandoned) < abandonedMax {
		return nil
	}
	return found(nameTooMany, "%d children of earlier trials hang within the kernel; restart the machine", len(p.abandoned))
}

// childProcess is a child after its answer.
type childProcess interface {
	poll() (ended bool)
	release()
	clean() error
}

// request is what a child is asked, but for what is different each time.
func (p *Prober) request(uuid, dir string) request {
	return request{
		Protocol: protocol, GPU: uuid, Dir: dir,
		CUDAPath: p.o.CUDAPath, CuFilePath: p.o.CuFilePath,
		IOBytesMax: p.o.IOBytesMax, TimeoutMs: p.o.Timeout.Milliseconds(),
		Uncounted: p.o.Uncounted, Root: p.o.Root,
	}
}

// checkPlace sees whether the place is still the one that the verdict is about.
func (p *Prober) checkPlace(ctx context.Context, r request, v gpu.Verdict) gpu.Verdict {
	if v.State != gpu.VerdictProven {
		return v
	}
	key, f := p.key(ctx, r)
	if f != nil {
		return refuse(v, f)
	}
	if key != v.Key {
		return refuse(v, found(nameChanged, "the place changed during the trial: %s", differingKey(v.Key, key)))
	}
	return v
}
