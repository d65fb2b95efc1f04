package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server"
	"github.com/sealstone/sealstone/tools/internal/web"
)

// closeTimeout bounds closing the store, after the time for the requests. The
// close syncs what is written and waits for the kernel's last request.
const closeTimeout = 30 * time.Second

// stop ends in order: nobody is sent here any more, what was received is
// answered, what was acknowledged is synced. HTTP answers until the end.
func (d *daemon) stop(srv *server.Server, store *engine.Store) error {
	d.enter(web.PhaseStopping, "answering what was received")
	d.tell(d.notify.Stopping())
	limit := d.plan.Settings.StopTimeout
	d.tell(d.notify.Extend(limit + closeTimeout))
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	left, err := srv.Shutdown(ctx)
	cancel()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		d.o.Logger.Warn("sealstone: the end of the connections", "error", err)
	}
	d.enter(web.PhaseStopping, "closing the store")
	err = d.closeStore(store)
	fate := "all writes are synced"
	if err != nil {
		fate = "the store was not closed in order"
	}
	fmt.Fprintf(d.o.Out, "sealstone: stopped after %v: %d requests and %d connections were cut off; %s\n",
		time.Since(began).Round(time.Millisecond), left.Requests, left.Connections, fate)
	return err
}

func (d *daemon) closeStore(store *engine.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := store.Close(ctx); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}
