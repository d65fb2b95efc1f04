package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// process is a server that runs.
type process struct {
	cmd     *exec.Cmd
	address string
	log     bytes.Buffer
}

const startMax = 30 * time.Second

// start runs a contender and waits until it accepts connections.
func start(ctx context.Context, c *config, s *contender, dir string) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	program := s.program
	if program == sealstone {
		program = c.sealstone
	}
	p := &process{address: fmt.Sprintf("127.0.0.1:%d", port)}
	p.cmd = exec.CommandContext(ctx, program, s.args(c, dir, port)...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(startMax); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if nc, err := net.Dial("tcp", p.address); err == nil {
			nc.Close()
			return p, nil
		}
	}
	p.stop()
	return nil, fmt.Errorf("%s does not listen: %s", s.name, p.log.String())
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// ticksPerSecond is USER_HZ, which Linux has fixed for its users.
const ticksPerSecond = 100

// cpu is the processor time, user and system, of the process so far.
func (p *process) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The second field is a name in brackets that may have any character.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const user, system = 14 - 3, 15 - 3
	u, err := strconv.ParseInt(string(f[user]), 10, 64)
	if err != nil {
		return 0, err
	}
	s, err := strconv.ParseInt(string(f[system]), 10, 64)
	return time.Duration(u+s) * (time.Second / ticksPerSecond), err
}
