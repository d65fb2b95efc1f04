package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/engine"
)

// beatInterval is how often the process looks whether its store answers.
const beatInterval = time.Second

// beat looks at the store over and over, and keeps the service manager's
// watchdog from ending a process that is alive. The look may hang for ever,
// which is what it is there to find out, so it runs by itself.
func (d *daemon) beat(ctx context.Context) {
	looks := make(chan struct{}, 1)
	go d.look(ctx, looks)
	interval := beatInterval
	if w := d.notify.WatchdogInterval; w > 0 {
		interval = min(interval, w)
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case looks <- struct{}{}:
		default: // the last look has not come back
		}
		if ok, why := d.heart.Alive(); !ok {
			d.o.Logger.Error("sealstone: wedged: " + why)
		} else if d.notify.WatchdogInterval > 0 {
			d.tell(d.notify.Alive())
		}
	}
}

// look asks the store for its figures, which takes its locks and asks its
// index; a store in order answers within a fraction of a second.
func (d *daemon) look(ctx context.Context, looks <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks:
		}
		if s := d.store.Load(); s != nil {
			_ = s.Stats()
		}
		d.heart.Beat()
	}
}

// reload reads tokens and certificates again whenever it is asked to. What can
// not be read leaves everything as it was.
func (d *daemon) reload(ctx context.Context, store *engine.Store) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.o.Reload:
		}
		if err := d.reloadOnce(store); err != nil {
			d.o.Logger.Error("sealstone: not everything was read again", "error", err)
			continue
		}
		d.o.Logger.Info("sealstone: tokens and certificates were read again", "tokens", d.plan.Tokens.Len())
	}
}

func (d *daemon) reloadOnce(store *engine.Store) error {
	var failed []error
	if d.plan.Certificates != nil {
		failed = append(failed, d.plan.Certificates.Reload())
	}
	if d.plan.Tokens != nil {
		before := d.plan.Tokens.Quotas()
		err := d.plan.Tokens.Reload()
		if err == nil {
			err = d.setQuotas(store, before)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// setQuotas gives the store the quotas of the tokens file; before are those
// that it has, of which some may be gone.
func (d *daemon) setQuotas(store *engine.Store, before map[string]int64) error {
	now := d.plan.Tokens.Quotas()
	var failed []error
	for tenant := range before {
		if _, ok := now[tenant]; !ok {
			failed = append(failed, store.SetQuota(tenant, 0))
		}
	}
	for tenant, n := range now {
		if err := store.SetQuota(tenant, n); err != nil {
			failed = append(failed, fmt.Errorf("quota of tenant %q: %w", tenant, err))
		}
	}
	return errors.Join(failed...)
}
