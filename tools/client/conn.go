package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"
)

// conn is a connection to the server, with what belongs to it there. One call
// has it at a time.
type conn struct {
	net   net.Conn
	in    *answers
	spent bool // it broke, or is out of step
	sent  bool // the command under way went out whole, so that it may be done

	handles map[*space]int64 // of namespaces, by what was opened
	regions map[*Region]int64
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// parseAddress splits "unix:/path" or "host:port".
func parseAddress(address string) (network, addr string) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return "unix", strings.TrimPrefix(path, "//")
	}
	return "tcp", strings.TrimPrefix(address, "tcp://")
}

// connect makes a connection and logs in.
func connect(ctx context.Context, address string, o Options) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	network, addr := parseAddress(address)
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, unreachable("dial", err)
	}
	if o.TLS != nil && network == "tcp" {
		cfg := o.TLS.Clone()
		if cfg.ServerName == "" {
			cfg.ServerName, _, _ = net.SplitHostPort(addr)
		}
		t := tls.Client(nc, cfg)
		if err := t.HandshakeContext(ctx); err != nil {
			_ = nc.Close()
			return nil, unreachable("TLS", err)
		}
		nc = t
	}
	c := &conn{net: nc, in: newAnswers(nc), handles: map[*space]int64{}, regions: map[*Region]int64{}}
	if err := c.login(ctx, o); err != nil {
		_ = nc.Close()
		return nil, err
	}
	return c, nil
}

func (c *conn) login(ctx context.Context, o Options) error {
	if o.Password == "" {
		return nil
	}
	cmd := newCommand("AUTH")
	if o.User != "" {
		cmd.str(o.User)
	}
	cmd.str(o.Password)
	return c.do(ctx, cmd, func(a *answers) error {
		_, err := a.text(answerLineMax)
		return err
	})
}

// do sends a command and reads its answer, no longer than ctx lasts.
func (c *conn) do(ctx context.Context, cmd *command, read func(*answers) error) error {
	_ = c.net.SetDeadline(time.Time{})
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = c.net.SetDeadline(past)
	})
	err := c.exchange(cmd, read)
	if !stop() {
		<-interrupted // or it would end the next call
	}
	if err != nil && c.spent && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// doUntil is do up to a point in time.
func (c *conn) doUntil(end time.Time, cmd *command, read func(*answers) error) error {
	_ = c.net.SetDeadline(end)
	return c.exchange(cmd, read)
}

func (c *conn) exchange(cmd *command, read func(*answers) error) error {
	c.in.lines, c.sent = 0, false
	out := cmd.buffers()
	if _, err := out.WriteTo(c.net); err != nil {
		c.spent = true
		return unreachable("send", err)
	}
	c.sent = true
	return c.readAnswer(read)
}

// readAnswer leaves the connection in step only if the answer came whole, or
// was a refusal of the command. An error line further in is none: what came
// before it was done, and what is behind it nobody knows.
func (c *conn) readAnswer(read func(*answers) error) error {
	err := read(c.in)
	var refused *ServerError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && c.in.lines == 1:
		return err
	}
	c.spent = true
	if refused != nil {
		return malformed("an error within an answer: %v %v", refused.Code, refused.Text)
	}
	if errors.Is(err, ErrProtocol) {
		return err
	}
	return unreachable("receive", err)
}

// fresh reports whether nothing of an answer has come.
func (c *conn) fresh() bool { return c.in.lines == 0 && c.in.in.Buffered() == 0 }

func (c *conn) close() { _ = c.net.Close() }
