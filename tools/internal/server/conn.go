package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealstone/sealstone/tools/internal/access"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

// conn is one connection. All but wake and busy belongs to its goroutine.
type conn struct {
	s   *Server
	net net.Conn
	src source
	in  *resp.Reader
	out *resp.Writer
	id  int64

	who   access.Identity
	known bool // who is set
	// session is the login by a token; nil: who has none.
	session *access.Session
	name    string // by CLIENT SETNAME
	ending  bool   // close after this answer
	failed  bool   // the command under way was answered with an error
	busy    atomic.Bool

	regions  Regions
	leases   map[int64]heldLease
	leaseID  int64
	lastLook bool // the last read before a shutdown was tried

	mu       sync.Mutex // deadlines against wake
	between  bool       // waits for a command
	deadline bool       // one is set for reads
	renewed  int64      // frame bytes when it was

	ahead readAhead
}

// progressBytes are what ReadTimeout is given for.
const progressBytes = 1 << 20

// lookPause is how long a connection that is being shut down waits for what
// is in its socket already.
const lookPause = 2 * time.Millisecond

var errClosing = errors.New("server: shutting down")

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, net: nc, id: s.lastID.Add(1)}
	c.src = newSource(nc, &s.count.bytesIn)
	c.regions = s.newRegions(nc)
	c.in = resp.NewReader(c.src, s.memory, resp.Limits{}, c.beforeRead)
	c.out = resp.NewWriter(nc, c.beforeWrite, c.afterWrite)
	c.reset()
	c.ahead.init(c)
	return c
}

// reset makes the connection as it was when it began.
func (c *conn) reset() {
	c.name, c.who, c.known, c.session = "", access.Identity{}, false, nil
	c.out.SetProtocol(2)
	if c.s.o.Tokens == nil {
		c.who, c.known = access.Open(), true
	}
	c.setLimits()
}

const (
	argsMax       = 64 << 10
	strangerArgs  = 10
	strangerValue = 4 << 10
	strangerFrame = 16 << 10
	pendingMax    = 256 << 10 // gathered answers are written at the latest past it
)

// setLimits gives a peer that has not said who it is just enough to say so.
func (c *conn) setLimits() {
	l := resp.Limits{ArgsMax: argsMax, ValueBytesMax: c.s.o.ValueBytesMax, CommandBytesMax: c.s.o.PipelinedBytesMax}
	if !c.known {
		l = resp.Limits{ArgsMax: strangerArgs, ValueBytesMax: strangerValue, CommandBytesMax: strangerFrame, Strict: true}
	}
	c.in.SetLimits(l)
}

func (c *conn) serve() {
	defer c.s.ended(c)
	defer c.end()
	for !c.ending {
		cmd, err := c.in.Next()
		if err != nil {
			if c.goOn(err) {
				continue
			}
			return
		}
		c.renewed = -1
		c.execute(cmd)
		c.in.Release()
		if c.out.Pending() > pendingMax && c.out.Flush() != nil {
			return
		}
	}
}

// goOn sees to an error of the reader; true: there may be more to read.
func (c *conn) goOn(err error) bool {
	var bad *resp.ProtocolError
	switch {
	case errors.As(err, &bad):
		c.s.count.protocolErrors.Add(1)
		c.out.Error("ERR " + bad.Error())
	case errors.Is(err, os.ErrDeadlineExceeded):
		if c.s.closing.Load() && c.idle() {
			return !c.lastLook
		}
		if c.idle() {
			c.s.count.idleTimeouts.Add(1)
		} else {
			c.s.count.readTimeouts.Add(1)
		}
	}
	return false
}

func (c *conn) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.between
}

// end gives back all that the connection holds.
func (c *conn) end() {
	c.in.Release()
	_ = c.out.Flush()
	c.in.Close()
	c.hangUp()
	for _, l := range c.leases {
		l.Release()
	}
	if c.regions != nil {
		c.regions.Close()
	}
	c.src.close()
}

// hangUp closes the socket. A peer that is still sending would lose the last
// answer with it, so it is first told that no more comes, and read for a
// moment.
func (c *conn) hangUp() {
	if half, ok := c.net.(interface{ CloseWrite() error }); ok && c.out.Err() == nil && half.CloseWrite() == nil {
		_ = c.net.SetReadDeadline(time.Now().Add(lingerPause))
		_, _ = io.CopyN(io.Discard, c.net, lingerBytes)
	}
	_ = c.net.Close()
}

const (
	lingerPause = 100 * time.Millisecond
	lingerBytes = 1 << 20
)

// beforeRead is called before each read of the socket.
func (c *conn) beforeRead(frameBytes int64) error {
	if frameBytes == resp.Between {
		if err := c.out.Flush(); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.between = frameBytes == resp.Between; c.between {
		return c.awaitCommand()
	}
	if !c.deadline || c.renewed < 0 || frameBytes-c.renewed >= progressBytes {
		c.renewed = frameBytes
		c.setReadDeadline(c.s.o.ReadTimeout)
	}
	return nil
}

func (c *conn) awaitCommand() error {
	c.renewed = -1
	switch {
	case c.s.closing.Load() && c.lastLook:
		return errClosing
	case c.s.closing.Load():
		c.lastLook = true
		c.setReadDeadline(lookPause)
	case c.s.o.IdleTimeout > 0:
		c.setReadDeadline(c.s.o.IdleTimeout)
	case c.deadline:
		c.deadline = false
		_ = c.net.SetReadDeadline(time.Time{})
	}
	return nil
}

func (c *conn) setReadDeadline(d time.Duration) {
	c.deadline = true
	_ = c.net.SetReadDeadline(time.Now().Add(d))
}

func (c *conn) beforeWrite() {
	_ = c.net.SetWriteDeadline(time.Now().Add(c.s.o.WriteTimeout))
	c.ahead.begin()
}

func (c *conn) afterWrite(n int64, err error) {
	c.ahead.end()
	c.s.count.bytesOut.Add(n)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.s.count.writeTimeouts.Add(1)
	}
}

// wake ends the wait for a command, for a shutdown. A command that is on its
// way may come to its end.
func (c *conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.between {
		_ = c.net.SetReadDeadline(time.Unix(1, 0))
	}
}

// context bounds what a command waits for.
func (c *conn) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), c.s.o.RequestTimeout)
}

// fail answers with an error line: a code, then what and what to do.
func (c *conn) fail(format string, args ...any) {
	c.failed = true
	c.out.Error(fmt.Sprintf(format, args...))
}

// execute does a command. A panic ends this connection and nothing else.
func (c *conn) execute(cmd *resp.Command) {
	c.busy.Store(true)
	c.failed = false
	began := time.Now()
	def := lookUp(cmd.Args[0])
	defer func() {
		if p := recover(); p != nil {
			c.s.count.panics.Add(1)
			c.s.o.Logger.Error("sealstone: a command panicked; its connection is closed", "command", def.name, "panic", p, "stack", string(debug.Stack()))
			c.fail("ERR internal error; the connection is closed")
			c.ending = true
		}
		c.s.count.command(def.index, time.Since(began), c.failed)
		c.busy.Store(false)
	}()
	if c.permitted(def, cmd) {
		def.do(c, cmd)
	}
}

// permitted answers with an error what may not be done.
func (c *conn) permitted(def *definition, cmd *resp.Command) bool {
	n := len(cmd.Args) + cmd.Cut
	if c.revoked() {
		c.ending = true
		c.fail("NOAUTH the token is not valid any more; the connection is closed")
		return false
	}
	switch {
	case !c.known && def.rights&noLogin == 0:
		c.fail("NOAUTH Authentication required.")
	case def == unknown:
		c.fail("ERR unknown command '%s'", clip(cmd.Args[0]))
	case n < def.argsMin || def.argsMax > 0 && n > def.argsMax:
		c.fail("ERR wrong number of arguments for '%s' command", strings.ToLower(def.name))
	case def.rights&^noLogin != 0 && !c.may(def.rights):
		c.fail("NOPERM this user has no permission to run the '%s' command", strings.ToLower(def.name))
	case len(cmd.Lost) > 0 && !def.takesLost || cmd.Cut > 0:
		c.refuseLost(cmd)
	default:
		return true
	}
	return false
}

func (c *conn) refuseLost(cmd *resp.Command) {
	c.s.count.limit(limitArguments)
	if len(cmd.Lost) == 0 {
		c.fail("LIMIT %s: %d arguments found no room; send fewer at a time", resp.ReasonMemory, cmd.Cut)
		return
	}
	l := cmd.Lost[0]
	c.fail("LIMIT %s: argument %d of %d bytes found no room; send less at a time", l.Reason, l.Arg, l.Bytes)
}

// clip makes what a peer sent fit for an error line.
func clip(p []byte) string {
	s := strings.ToValidUTF8(string(p[:min(len(p), 64)]), "?")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
