package canary

import (
	"context"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/gpu"
)

// Names of the checks of a trial, in their order.
const (
	checkSystem   = "system"
	checkCUDA     = "GPU"
	checkKernel   = "verify kernel"
	checkCuFile   = "strict mode"
	checkFile     = "file"
	checkRegister = "registration"
	checkReads    = "reads"
	checkRewrite  = "reads after a rewrite"
	checkEnd      = "clean end"
)

// requiredChecks must all have passed where a pair is proven.
var requiredChecks = []string{checkSystem, checkCUDA, checkKernel, checkCuFile, checkFile, checkRegister, checkReads, checkRewrite, checkEnd}

// trial is a canary at work, in the child. One goroutine uses it.
type trial struct {
	r request
	// at is told each step before it begins: a step may not come back.
	at func(m message)
	v  gpu.Verdict

	device device
	file   scratchFile
	round  int
	settle func() // waits for bytes that arrive late
}

// settleTime is how long a trial waits for bytes that a read said were there.
const settleTime = 250 * time.Millisecond

func newTrial(r request, at func(message)) *trial {
	return &trial{r: r, at: at, settle: func() { time.Sleep(settleTime) }}
}

// step is a part of a trial that ends it if it finds something.
type step struct {
	check string
	run   func(ctx context.Context) (detail string, f *finding)
}

// run does all checks until one fails. It always cleans up, but for what a
// call that does not come back still uses.
func (t *trial) run(ctx context.Context) gpu.Verdict {
	start := time.Now()
	t.v = gpu.Verdict{State: gpu.VerdictUnknown, Dir: t.r.Dir, Checks: []gpu.VerdictCheck{}}
	var f *finding
	for _, s := range t.steps() {
		if f = t.do(ctx, s); f != nil {
			break
		}
	}
	// What is left to be cleaned up after a failure is no finding of its own.
	t.end()
	t.v.State = gpu.VerdictProven
	if f != nil {
		t.v.State, t.v.Code, t.v.Name, t.v.Reason = gpu.VerdictRefused, f.code, f.name, clip(f.reason)
	}
	t.v.When, t.v.TookMs = time.Now().UTC(), time.Since(start).Milliseconds()
	return t.v
}

func (t *trial) steps() []step {
	return []step{
		{checkSystem, t.checkSystem},
		{checkCUDA, t.openGPU},
		{checkKernel, t.proveKernel},
		{checkCuFile, t.openCuFile},
		{checkFile, t.makeFile},
		{checkRegister, t.register},
		{checkReads, t.reads},
		{checkRewrite, t.rewrite},
		{checkEnd, t.close},
	}
}

// do runs one step and writes down what came of it.
func (t *trial) do(ctx context.Context, s step) *finding {
	t.say("%s", s.check)
	if err := context.Cause(ctx); err != nil {
		return found(nameInterrupted, "ended before the check %q: %v", s.check, err)
	}
	detail, f := s.run(ctx)
	if f != nil {
		detail = f.reason
	}
	t.v.Checks = append(t.v.Checks, gpu.VerdictCheck{Name: s.check, Passed: f == nil, Detail: clip(detail)})
	return f
}

func (t *trial) say(format string, args ...any) {
	t.at(message{At: fmt.Sprintf(format, args...), Tried: t.v.Tried})
}

func (t *trial) note(format string, args ...any) {
	if len(t.v.Notes) < answerChecksMax {
		t.v.Notes = append(t.v.Notes, clip(fmt.Sprintf(format, args...)))
	}
}

// clip keeps a text within what an answer may hold.
func clip(s string) string {
	const most = answerTextMax / 2
	if len(s) > most {
		return s[:most]
	}
	return s
}

func (t *trial) checkSystem(context.Context) (string, *finding) {
	return "", checkGates(system(t.r.Root))
}

// reads does the plan on a fresh file, rewrite does it again after the file was
// written anew in place: a path that keeps bytes of its own gives the old ones.
func (t *trial) reads(ctx context.Context) (string, *finding) {
	return t.doPlan(ctx)
}

func (t *trial) rewrite(ctx context.Context) (string, *finding) {
	if f := t.file.fill(); f != nil {
		return "", f
	}
	return t.doPlan(ctx)
}

func (t *trial) doPlan(ctx context.Context) (string, *finding) {
	t.round++
	reads := plan(t.r.IOBytesMax)
	for i, r := range reads {
		if err := context.Cause(ctx); err != nil {
			return "", found(nameInterrupted, "ended before read %d of %d: %v", i+1, len(reads), err)
		}
		t.v.Tried = true
		t.say("round %d, read %d of %d: %d bytes", t.round, i+1, len(reads), r.Length)
		if f := t.readOnce(r); f != nil {
			return "", f
		}
	}
	return fmt.Sprintf("%d reads of %d to %d bytes", len(reads), reads[0].Length, t.r.IOBytesMax), nil
}

// readOnce does one read of the plan and judges it.
func (t *trial) readOnce(r transfer) *finding {
	e := &evidence{transfer: r, file: t.file.content, before: t.file.before}
	e.poison, e.guard = t.device.nextFill()
	if err := t.device.prepare(e); err != nil {
		return failed("fill the destination", err)
	}
	var f *finding
	if e.returned, e.routesBefore, e.routesAfter, f = t.device.read(t.file.handle, r); f != nil {
		return f
	}
	if err := t.device.collect(e); err != nil {
		return failed("look at the destination", err)
	}
	rules := rule(allRules)
	if t.r.Uncounted {
		rules &^= ruleCounted
	}
	if f = judge(e, rules); f != nil {
		return t.lookAgain(e, f)
	}
	return nil
}

// lookAgain waits for bytes that were not where they should be before the
// memory is given back, as they may still be on their way; if they then are
// there, that is the finding.
func (t *trial) lookAgain(e *evidence, f *finding) *finding {
	t.settle()
	if err := t.device.collect(e); err != nil {
		return f // the first finding tells more
	}
	if lateNames[f.name] && judge(e, ruleContent|ruleOwner) == nil {
		return found(nameLate, "bytes arrived after the read had returned; at that time: %s", f.reason)
	}
	return f
}
