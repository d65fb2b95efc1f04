package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server"
	"github.com/sealstone/sealstone/tools/internal/server/shm"
	"github.com/sealstone/sealstone/tools/internal/settings"
	"github.com/sealstone/sealstone/tools/internal/web"
)

// Options are what Run may use of the process.
type Options struct {
	Version string
	// Out gets one line when the server serves and one when it has stopped.
	Out io.Writer
	// Logger gets a line per change of state.
	Logger *slog.Logger
	// Reload gets a value when tokens and certificates are to be read again.
	Reload <-chan os.Signal
	// Getenv is asked about the service manager. Default os.Getenv.
	Getenv func(string) string
	// GPUs, if set, looks for GPUs; it may take its time, until ctx ends.
	GPUs func(ctx context.Context) web.GPUs
}

// daemon is a server that runs.
type daemon struct {
	plan    *Plan
	o       Options
	notify  *Notifier
	heart   *Heart
	started time.Time

	store  atomic.Pointer[engine.Store]
	server atomic.Pointer[server.Server]
	gpus   atomic.Pointer[web.GPUs]
	mu     sync.Mutex // phase and detail
	phase  web.Phase
	detail string
}

// Run serves until ctx ends, and then stops in order: it is not ready any more,
// takes no new connection, answers what it has received, syncs and closes the
// store. What was left is in the last line of Out. Errors: those of listening,
// of engine.Open and of closing the store.
func Run(ctx context.Context, p *Plan, o Options) (err error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	d := &daemon{plan: p, o: o, notify: NewNotifier(o.Getenv), started: time.Now(), phase: web.PhaseOpening}
	d.heart = NewHeart(p.Settings.WedgedAfter, time.Now, d.ended)
	d.gpus.Store(&web.GPUs{State: "off", Reason: "nobody looked for GPUs: start the server with --gpu"})
	for _, w := range p.Warnings {
		o.Logger.Warn(w)
	}
	doors, err := openDoors(ctx, p.Settings, p.Certificates)
	if err != nil {
		return err
	}
	defer doors.close()
	stopHTTP := d.serveHTTP(doors)
	defer stopHTTP()
	return d.live(ctx, doors)
}

// live opens the store, serves and closes.
func (d *daemon) live(ctx context.Context, doors *doors) error {
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	wait.Go(func() { d.beat(background) })
	store, err := d.open()
	if err != nil {
		return err
	}
	d.store.Store(store)
	if ctx.Err() != nil { // somebody did not want to wait for the open
		return d.closeStore(store)
	}
	srv, err := d.newServer(store)
	if err != nil {
		return errors.Join(err, d.closeStore(store))
	}
	d.server.Store(srv)
	broken := make(chan error, len(doors.resp))
	for _, l := range doors.resp {
		wait.Go(func() { broken <- srv.Serve(l) })
	}
	wait.Go(func() { d.reload(background, store) })
	if d.o.GPUs != nil && d.plan.Settings.GPU {
		d.gpus.Store(&web.GPUs{State: "looking", Reason: "looking for GPUs"})
		wait.Go(func() {
			found := d.o.GPUs(background)
			d.gpus.Store(&found)
		})
	}
	d.serving(doors)
	select {
	case <-ctx.Done():
	case err = <-broken:
		err = fmt.Errorf("a listener failed: %w", err)
	}
	return errors.Join(err, d.stop(srv, store))
}

func (d *daemon) open() (*engine.Store, error) {
	o, err := d.plan.Settings.Store.Options()
	if err != nil {
		return nil, err
	}
	o.Logger = d.o.Logger
	last := time.Now()
	o.Progress = func(done, total int64) {
		d.enter(web.PhaseOpening, fmt.Sprintf("%d of %d bytes of segments read to rebuild the index", done, total))
		if time.Since(last) > 10*time.Second {
			last = time.Now()
			// A rebuild may take longer than the manager waits for a start.
			_ = d.notify.Extend(time.Minute)
			d.o.Logger.Info("sealstone: rebuilding the index", "done_bytes", done, "total_bytes", total)
		}
	}
	store, err := engine.Open(d.plan.Settings.Dir, o)
	if err != nil {
		return nil, fmt.Errorf("open the store in %s: %w", d.plan.Settings.Dir, err)
	}
	if err := d.setQuotas(store, nil); err != nil {
		return nil, errors.Join(err, d.closeStore(store))
	}
	return store, nil
}

func (d *daemon) newServer(store *engine.Store) (*server.Server, error) {
	l := &d.plan.Settings.Limits
	return server.New(store, server.Options{
		Tokens: d.plan.Tokens, ConnectionsMax: l.ConnectionsMax, HandlesMax: l.HandlesMax, HiddenKeysMax: l.HiddenKeysMax, ValueBytesMax: int64(l.ValueMax),
		PipelinedBytesMax: int64(l.PipelinedMax), ValueMemoryBytes: int64(l.ValueMemory),
		ReadTimeout: l.ReadTimeout, WriteTimeout: l.WriteTimeout, IdleTimeout: l.IdleTimeout, RequestTimeout: l.RequestTimeout,
		Regions: shm.Limits{
			RegionsMax: l.RegionsMax, BytesMax: int64(l.RegionBytesMax), HostRegionsMax: l.RegionsMaxAll, HostBytesMax: int64(l.RegionBytesMaxAll),
		},
		NoLeaseOnExists: l.Exists == settings.ExistsPlain, VerifyOnExists: l.Exists == settings.ExistsVerify,
		LeaseDuration: d.plan.Settings.Store.LeaseDuration,
		Logger:        d.o.Logger, Version: d.o.Version,
	})
}

// serving says everywhere that requests are answered.
func (d *daemon) serving(doors *doors) {
	d.enter(web.PhaseServing, "")
	var at []string
	for _, l := range doors.resp {
		at = append(at, l.Addr().Network()+" "+l.Addr().String())
	}
	line := "RESP at " + strings.Join(at, " and ")
	if doors.http != nil {
		scheme := "http://"
		if d.plan.Certificates != nil {
			scheme = "https://"
		}
		line += ", page at " + scheme + doors.http.Addr().String() + "/"
	}
	fmt.Fprintf(d.o.Out, "sealstone: serving %s: %s\n", d.plan.Settings.Dir, line)
	d.tell(d.notify.Ready())
	d.tell(d.notify.Status(line))
}

func (d *daemon) serveHTTP(doors *doors) (stop func()) {
	if doors.http == nil {
		return func() {}
	}
	s := d.plan.Settings
	h := web.NewServer(web.NewHandler(web.Options{
		Now: d.moment, Alive: d.heart.Alive, Tokens: d.plan.Tokens, OpenMetrics: s.OpenMetrics, PProf: s.PProf,
		Dir: s.Dir, Version: d.o.Version, Started: d.started,
	}))
	h.ErrorLog = slog.NewLogLogger(d.o.Logger.Handler(), slog.LevelDebug)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.Serve(web.LimitListener(doors.http)); !errors.Is(err, http.ErrServerClosed) {
			d.o.Logger.Error("sealstone: HTTP ended", "error", err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if h.Shutdown(ctx) != nil {
			_ = h.Close()
		}
		<-done
	}
}

// moment is the state that HTTP shows.
func (d *daemon) moment() web.Moment {
	d.mu.Lock()
	m := web.Moment{Phase: d.phase, Detail: d.detail}
	d.mu.Unlock()
	if s := d.store.Load(); s != nil {
		m.Store = s
	}
	if s := d.server.Load(); s != nil {
		m.Server = s.Stats
	}
	m.GPUs = *d.gpus.Load()
	return m
}

func (d *daemon) enter(p web.Phase, detail string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase, d.detail = p, detail
}

// ended counts the requests that were answered.
func (d *daemon) ended() int64 {
	s := d.server.Load()
	if s == nil {
		return 0
	}
	n := int64(0)
	for _, c := range s.Stats().Commands {
		n += c.Calls
	}
	return n
}

// tell logs that the service manager could not be told.
func (d *daemon) tell(err error) {
	if err != nil {
		d.o.Logger.Warn("sealstone: " + err.Error())
	}
}
