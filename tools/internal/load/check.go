package load

import (
	"context"
	"time"
)

// Check gets every key of the history once, over one connection. Nobody may
// write meanwhile. What was acknowledged and is not found is counted as lost.
func Check(ctx context.Context, c Config) (*Report, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &run{c: c, values: values{c.Prefix, c.ValueBytes}, tally: newTally()}
	k, err := dial(ctx, &r.c, 0, false)
	if err != nil {
		return nil, err
	}
	defer k.close()
	began := time.Now()
	w := &worker{run: r, client: k}
	for key := range c.History.keys {
		found, err := w.getKey(key)
		if err != nil {
			return nil, err
		}
		w.found(key, found)
	}
	return r.tally.report(&r.c, time.Since(began)), nil
}
