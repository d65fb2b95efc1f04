package canary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// outputBytesMax bounds what is read of a child's last words.
const outputBytesMax = 1024

// process is a child and what it was given.
type process struct {
	cmd     *exec.Cmd
	folder  string   // its working directory, which is removed
	scratch string   // what it makes in the directory that is tried
	in      *os.File // open as long as the parent wants its answer
	out     *os.File
	grace   time.Duration
	status  unix.WaitStatus
	ended   bool
}

// start starts the child. Nothing here starts a goroutine: the standard files
// of the child are files, and nobody waits for it but [process.wait].
func start(program, env []string, r request, grace time.Duration) (p *process, err error) {
	p = &process{grace: grace, scratch: filepath.Join(r.Dir, r.Scratch), folder: r.LogDir}
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			p.closePipes()
		}
	}()
	childIn, in, err := os.Pipe()
	if err != nil {
		return p, err
	}
	files, p.in = append(files, childIn), in
	out, childOut, err := os.Pipe()
	if err != nil {
		return p, err
	}
	files, p.out = append(files, childOut), out
	said, err := os.Create(p.outputName())
	if err != nil {
		return p, err
	}
	files = append(files, said)
	p.cmd = exec.Command(program[0], program[1:]...)
	p.cmd.Dir, p.cmd.Env = p.folder, env
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = childIn, said, said
	p.cmd.ExtraFiles = []*os.File{childOut} // AnswerFD
	// Signals that a terminal sends to its group are for the parent.
	p.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	return p, p.cmd.Start()
}

func (p *process) outputName() string { return filepath.Join(p.folder, "output.txt") }

func (p *process) closePipes() {
	for _, f := range []*os.File{p.in, p.out} {
		if f != nil {
			f.Close()
		}
	}
}

// ask sends the request and reads all that the child says, until it closes its
// end, says too much, or the deadline or ctx ends. The bytes read until then
// are returned in any case.
func (p *process) ask(ctx context.Context, r request, deadline time.Time) ([]byte, error) {
	defer p.closePipes()
	if err := errors.Join(p.in.SetWriteDeadline(deadline), p.out.SetReadDeadline(deadline)); err != nil {
		return nil, err
	}
	// Only now, so that an end of ctx is the last to set a deadline.
	stop := context.AfterFunc(ctx, func() {
		now := time.Now()
		_ = p.in.SetWriteDeadline(now)
		_ = p.out.SetReadDeadline(now)
	})
	defer stop()
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	// A child that died before it read tells more by its last words.
	_, _ = p.in.Write(append(line, '\n'))
	said, err := io.ReadAll(io.LimitReader(p.out, answerBytesMax+1))
	if ctx.Err() != nil {
		return said, context.Cause(ctx)
	}
	return said, err
}

// wait looks whether the child ended, for at most d.
func (p *process) wait(d time.Duration) bool {
	end := time.Now().Add(d)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if p.poll() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
}

// poll reaps the child if it has ended. Where the host reaps all children of
// its process itself there is no such child any more, and no status.
func (p *process) poll() bool {
	if p.ended {
		return true
	}
	pid, err := unix.Wait4(p.cmd.Process.Pid, &p.status, unix.WNOHANG, nil)
	if err == unix.EINTR || err == nil && pid == 0 {
		return false
	}
	p.ended = true
	return true
}

// finish makes sure that the child ends, as far as anybody can.
func (p *process) finish(kill bool) (ended bool) {
	if !kill && p.wait(p.grace) {
		return true
	}
	if !p.poll() {
		_ = p.cmd.Process.Kill()
	}
	return p.wait(killGrace)
}

// release gives back what the handle of a process takes (a descriptor). The
// process itself is still to be reaped by poll.
func (p *process) release() {
	pid := p.cmd.Process.Pid
	_ = p.cmd.Process.Release()
	p.cmd.Process = &os.Process{Pid: pid}
}

// clean removes what the child left. It must have ended: a file that the kernel
// still works on may hang whoever removes it.
func (p *process) clean() error {
	return errors.Join(os.RemoveAll(p.scratch), os.RemoveAll(p.folder))
}

// lastWords says how the child ended and what it wrote to its terminal.
func (p *process) lastWords() string {
	text := "it ended without a status"
	switch {
	case p.status.Signaled():
		text = fmt.Sprintf("it was ended by the signal %v", p.status.Signal())
	case p.status.Exited():
		text = fmt.Sprintf("it ended with status %d", p.status.ExitStatus())
	}
	f, err := os.Open(p.outputName())
	if err != nil {
		return text
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > outputBytesMax {
		_, _ = f.Seek(-outputBytesMax, io.SeekEnd)
	}
	if b, err := io.ReadAll(io.LimitReader(f, outputBytesMax)); err == nil && len(b) > 0 {
		text += fmt.Sprintf(" and said %q", b)
	}
	return text
}
