package gpu

type landing struct{ pool *pool }

func newLanding(d *Device) *landing {
	return &landing{pool: (&pool{name: "landing", limitBytes: d.o.LandingBytesMax, clock: d.o.Clock}).init()}
}

func (l *landing) close(keepAll bool) error { return l.pool.close(keepAll) }
