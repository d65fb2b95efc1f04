package web

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds of every request.
const (
	answerTimeout  = 10 * time.Second
	headerTimeout  = 5 * time.Second
	writeTimeout   = 2 * time.Minute // a profile of the default length takes 30 s
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 16 << 10
	maxScrapes     = 8
	maxConnections = 256
)

// NewServer makes the HTTP server of a handler, with a bound on everything that
// a client can take time or memory with.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
}

// LimitListener bounds the connections of a listener: further ones wait in the
// kernel's queue until one ends.
func LimitListener(l net.Listener) net.Listener {
	return &limited{Listener: l, room: make(chan struct{}, maxConnections)}
}

type limited struct {
	net.Listener
	room chan struct{}
}

type limitedConn struct {
	net.Conn
	leave func()
}

func (l *limited) Accept() (net.Conn, error) {
	l.room <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &limitedConn{c, sync.OnceFunc(func() { <-l.room })}, nil
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}

// NewHandler makes the handler of all paths.
func NewHandler(o Options) http.Handler {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	s := &site{o: o}
	mux := http.NewServeMux()
	answer := func(pattern string, h http.Handler) {
		mux.Handle(pattern, http.TimeoutHandler(h, answerTimeout, "no answer within "+answerTimeout.String()+"\n"))
	}
	answer("GET /livez", http.HandlerFunc(s.livez))
	answer("GET /readyz", http.HandlerFunc(s.readyz))
	answer("GET /healthz", http.HandlerFunc(s.healthz))
	answer("GET /status", s.reader(http.HandlerFunc(s.status)))
	answer("GET /metrics", s.metricsReader(promhttp.HandlerFor(newRegistry(o), promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})))
	answer("GET /{$}", asset("page.html", "text/html; charset=utf-8"))
	answer("GET /page.css", asset("page.css", "text/css; charset=utf-8"))
	answer("GET /page.js", asset("page.js", "text/javascript; charset=utf-8"))
	if o.PProf {
		s.profiles(mux)
	}
	return sameHost(headers(mux))
}

type site struct{ o Options }

// profiles are the process's own, for who may administer it.
func (s *site) profiles(mux *http.ServeMux) {
	mux.Handle("GET /debug/pprof/", s.admin(http.HandlerFunc(pprof.Index)))
	mux.Handle("GET /debug/pprof/profile", s.admin(http.HandlerFunc(pprof.Profile)))
	mux.Handle("GET /debug/pprof/symbol", s.admin(http.HandlerFunc(pprof.Symbol)))
	mux.Handle("GET /debug/pprof/trace", s.admin(http.HandlerFunc(pprof.Trace)))
}

// headers forbid a browser everything that the page does not need.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// sameHost refuses requests that came in over loopback under a foreign name: a
// page from elsewhere could have its own name resolved to 127.0.0.1, and read
// the answers through somebody's browser.
func sameHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if ok && isLoopback(local.String()) && !isLoopback(r.Host) {
			http.Error(w, fmt.Sprintf("host %.100q is not this machine's own name; ask for localhost (a proxy has to set the Host header)", r.Host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopback looks at a host with or without a port.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
