package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

// kvArgs reads the arguments of a KV command one after the other. The first
// thing that is wrong stays; what is read after it is empty.
type kvArgs struct {
	cmd     *resp.Command
	at      int
	problem string
}

func newKVArgs(cmd *resp.Command, at int) *kvArgs { return &kvArgs{cmd: cmd, at: at} }

// left is how many arguments were not read yet.
func (a *kvArgs) left() int { return len(a.cmd.Args) - a.at }

func (a *kvArgs) wrong(format string, args ...any) {
	if a.problem == "" {
		a.problem = fmt.Sprintf("ERR argument %d: ", max(a.at-1, 0)) + fmt.Sprintf(format, args...)
	}
}

// next reads an argument; nil if it was lost or is missing.
func (a *kvArgs) next(what string) []byte {
	if a.problem != "" {
		return nil
	}
	if a.left() == 0 {
		a.at++
		a.wrong("%s is missing", what)
		return nil
	}
	p := a.cmd.Args[a.at]
	a.at++
	return p
}

// number reads an argument from min to max.
func (a *kvArgs) number(what string, min, max int64) int64 {
	p := a.next(what)
	if a.problem != "" {
		return 0
	}
	n, err := parseNumber(p)
	if err != nil || n < min || n > max {
		a.wrong("%s is %q: a number from %d to %d is wanted", what, clip(p), min, max)
		return 0
	}
	return n
}

// end sees that there is nothing more.
func (a *kvArgs) end() {
	if a.problem == "" && a.left() > 0 {
		a.at++
		a.wrong("there are %d arguments too many", a.left()+1)
	}
}

// parseNumber reads a decimal number of 0 and more, as KV commands write them.
func parseNumber(p []byte) (int64, error) {
	if len(p) > 19 {
		return 0, strconv.ErrRange
	}
	n, err := strconv.ParseUint(string(p), 10, 63)
	return int64(n), err
}

// kvFlags are what "flags" of KV.PUT and KV.GET may list.
type kvFlags struct {
	durable, seal bool
	timeout       time.Duration // 0: none
}

// timeoutMax is the most that a peer may ask for; RequestTimeout bounds it too.
const timeoutMax = 24 * time.Hour

func (a *kvArgs) flags() (f kvFlags) {
	list := string(a.next("flags"))
	for word := range strings.SplitSeq(list, ",") {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case word == "":
		case word == "durable":
			f.durable = true
		case word == "seal":
			f.seal = true
		case key == "timeout":
			n, err := parseNumber([]byte(value))
			if err != nil || n < 1 || n > timeoutMax.Milliseconds() {
				a.wrong("timeout is %q: milliseconds from 1 to %d are wanted", clip([]byte(value)), timeoutMax.Milliseconds())
			}
			f.timeout = time.Duration(n) * time.Millisecond
		default:
			a.wrong("flag %q is not known: durable, seal and timeout=MILLISECONDS are", clip([]byte(word)))
		}
	}
	return f
}

// contextFor bounds a command by its own timeout, too.
func (c *conn) contextFor(f kvFlags) (context.Context, context.CancelFunc) {
	if f.timeout > 0 && f.timeout < c.s.o.RequestTimeout {
		return context.WithTimeout(context.Background(), f.timeout)
	}
	return c.context()
}

// handleOf reads a handle; nil means that an error was answered.
func (c *conn) handleOf(p []byte) *handle {
	id, err := parseNumber(p)
	if err != nil {
		c.fail("BADHANDLE %q is no handle: KV.OPEN gives them", clip(p))
		return nil
	}
	h := c.s.spaces.find(id)
	// A handle of another tenant is as unknown as one that does not exist.
	if h == nil || h.tenant() != c.who.Tenant && !c.who.Admin {
		c.fail("BADHANDLE handle %d is not open: open the namespace (again) with KV.OPEN", id)
		return nil
	}
	return h
}
