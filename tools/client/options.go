package client

import (
	"crypto/tls"
	"time"
)

// Options of a [Client]. The zero value is good for a server that asks for no
// password.
type Options struct {
	// User and Password log in. A token alone goes into Password.
	User, Password string
	// TLS, if not nil, is what a TCP connection is encrypted with.
	TLS *tls.Config
	// Connections is how many calls are with the server at a time, 4 by
	// default and at most 64; further ones wait. Leases and regions belong to
	// connections, so an idle one is kept open.
	Connections int
	// CallTimeout bounds calls whose context has no deadline, 30 s by default.
	CallTimeout time.Duration
	// DialTimeout bounds a connection's first steps, 5 s by default.
	DialTimeout time.Duration
	// LingerMax is how long a call that shares memory waits behind the deadline
	// of its context, or CallTimeout, for the server to let go of it, 10 s by
	// default. Until that deadline, of which the server is told, it waits also
	// when the context is cancelled: no time of its own is asked for. A server
	// that has not by then is given up with the regions of the call: they
	// answer Invalid from then on, and must not be used for anything else
	// before the server's end, as it may still read or write there.
	LingerMax time.Duration
}

const (
	connectionsDefault = 4
	connectionsMax     = 64
)

func (o Options) withDefaults() Options {
	if o.Connections <= 0 {
		o.Connections = connectionsDefault
	}
	o.Connections = min(o.Connections, connectionsMax)
	orDefault(&o.CallTimeout, 30*time.Second)
	orDefault(&o.DialTimeout, 5*time.Second)
	orDefault(&o.LingerMax, 10*time.Second)
	return o
}

func orDefault(d *time.Duration, usual time.Duration) {
	if *d <= 0 {
		*d = usual
	}
}
