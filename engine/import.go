package engine

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sealstone/sealstone/engine/layout"
)

// ImportOptions says how Import treats what it reads.
type ImportOptions struct {
	// Tenant, if not nil, takes all blocks instead of the tenants in the file.
	Tenant *string
	// RequireMatch refuses a layout that is near to one the tenant has, instead
	// of making a new namespace; see NamespaceOptions.
	RequireMatch bool
	// BytesPerSecond bounds what is read from the file; 0 is no bound.
	BytesPerSecond int64
	// Progress is told how many bytes of the file were read.
	Progress func(doneBytes int64)
}

// ImportReport is what Import did.
type ImportReport struct {
	Blocks   int64 `json:"blocks"` // read and verified
	RawBytes int64 `json:"raw_bytes"`
	// Stored were new; Existed were stored already, of which Differs have
	// other content in the store, which stays.
	Stored     int64             `json:"stored"`
	Existed    int64             `json:"existed"`
	Differs    int64             `json:"differs"`
	Namespaces []ImportNamespace `json:"namespaces"`
	// Complete: the file was whole to its end.
	Complete bool `json:"complete"`
}

// ImportNamespace is what became of a namespace in the file.
type ImportNamespace struct {
	Tenant string `json:"tenant"`
	Number uint32 `json:"number"`
	Blocks int64  `json:"blocks"`
	// Differences of a new namespace from the tenant's nearest stored layout:
	// its blocks are not found under that one. A is stored, B in the file.
	Differences []layout.Difference `json:"differences"`
	Warnings    []string            `json:"warnings"`
}

// Bounds of what Import reads ahead of a put.
const (
	importBatchBlocks = 64
	importBatchBytes  = 16 << 20
	importTriesMax    = 10
)

// Import puts the blocks of an export file. Each is verified against its sums
// before it is put, and again by the put, which gets its seal. A block that is
// stored already stays as it is. When Import returns nil the file was whole and
// all of its blocks are durable; with an error those that came before it are
// stored: every one of them whole and right.
//
// Errors: ErrCorrupt for a file that is damaged, cut short, or put together
// from others; ErrUnsupported; ErrLayoutMismatch; ErrShed where the store has
// no room; a *BlockError for a block that the store refuses. The report is
// returned with an error too.
func (s *Store) Import(ctx context.Context, r io.Reader, o ImportOptions) (*ImportReport, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.ops.done()
	if err := s.writable(); err != nil {
		return nil, err
	}
	m, err := newImporting(r, o)
	if err != nil {
		return nil, err
	}
	m.s = s
	err = m.run(ctx)
	if err == nil {
		err = s.settleFor(ctx)
	}
	m.report.Complete = err == nil
	if err != nil {
		err = fmt.Errorf("engine: import: %w", err)
	}
	return m.report, err
}

// CheckExport reads an export file to its end and verifies all of it. Errors
// are those of Import.
func CheckExport(ctx context.Context, r io.Reader, o ImportOptions) (*ImportReport, error) {
	m, err := newImporting(r, o)
	if err != nil {
		return nil, err
	}
	err = m.run(ctx)
	m.report.Complete = err == nil
	return m.report, err
}

// ImportDir is [Store.Import] for the closed store in dir. CapacityBytes is
// what the store's owner gives it; 0 is what the file system has room for.
func ImportDir(ctx context.Context, dir string, r io.Reader, capacityBytes int64, o ImportOptions) (*ImportReport, error) {
	return importDir(ctx, dir, r, capacityBytes, o, privateOptions{})
}

func importDir(ctx context.Context, dir string, r io.Reader, capacityBytes int64, o ImportOptions, private privateOptions) (rep *ImportReport, err error) {
	open := workshopOptions(private)
	open.private.noBackground = private.noBackground // puts are synced and applied beside it
	open.CapacityBytes = capacityBytes
	err = inWorkshop(dir, open, func(s *Store) (err error) {
		rep, err = s.Import(ctx, r, o)
		return err
	})
	return rep, err
}

// importing is an Import under way. Without a store it only checks.
type importing struct {
	s      *Store
	o      ImportOptions
	pace   *pacer
	r      *exportReader
	spaces []*Namespace // by their numbers in the file
	report *ImportReport

	space uint32 // of the batch
	batch []PutBlock
	bytes int64
}

func newImporting(r io.Reader, o ImportOptions) (*importing, error) {
	pace, err := newPacer(o.BytesPerSecond)
	if err != nil {
		return nil, err
	}
	in, err := newExportReader(r)
	if err != nil {
		return nil, err
	}
	return &importing{o: o, pace: pace, r: in, report: &ImportReport{Namespaces: []ImportNamespace{}}}, nil
}

func (m *importing) run(ctx context.Context) error {
	for {
		if err := m.mayGoOn(ctx); err != nil {
			return err
		}
		at := m.r.offset
		rec, err := m.r.next()
		switch {
		case errors.Is(err, io.EOF) && m.r.ended:
			return m.flush(ctx)
		case err != nil:
			// What was read before it is right.
			return errors.Join(err, m.flush(ctx))
		case rec.namespace != nil:
			err = m.namespace(ctx, rec.namespace)
		default:
			err = m.block(ctx, rec)
		}
		if err == nil {
			err = m.pace.wait(ctx, m.r.offset-at)
		}
		if err != nil {
			return err
		}
		if m.o.Progress != nil {
			m.o.Progress(m.r.offset)
		}
	}
}

func (m *importing) mayGoOn(ctx context.Context) error {
	if m.s != nil && m.s.closing.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

func (m *importing) namespace(ctx context.Context, n *exportedNamespace) error {
	tenant := n.tenant
	if m.o.Tenant != nil {
		tenant = *m.o.Tenant
	}
	out := ImportNamespace{Tenant: tenant, Differences: []layout.Difference{}, Warnings: []string{}}
	if m.s != nil {
		space, err := m.s.Namespace(ctx, n.layout, tenant, NamespaceOptions{RequireMatch: m.o.RequireMatch})
		if err != nil {
			return err
		}
		m.spaces = append(m.spaces, space)
		out.Number = space.Info().Number
		out.Differences = append(out.Differences, space.Differences()...)
		out.Warnings = append(out.Warnings, space.Warnings()...)
	}
	m.report.Namespaces = append(m.report.Namespaces, out)
	return nil
}

func (m *importing) block(ctx context.Context, rec *exportedRecord) error {
	b := rec.block
	m.report.Blocks++
	m.report.RawBytes += b.rawBytes()
	m.report.Namespaces[b.namespace].Blocks++
	if m.s == nil {
		return nil
	}
	if b.namespace != m.space || len(m.batch) >= importBatchBlocks || m.bytes+b.rawBytes() > importBatchBytes {
		if err := m.flush(ctx); err != nil {
			return err
		}
		m.space = b.namespace
	}
	put := PutBlock{Hash: b.hash, Parent: b.parent, Seal: b.seal()}
	names := m.spaces[b.namespace].layout.Planes
	if len(names) != len(rec.planes) {
		return fmt.Errorf("%w: block %x has %d planes, its layout %d", ErrCorrupt, b.hash, len(rec.planes), len(names))
	}
	for i, p := range rec.planes {
		put.Planes = append(put.Planes, PlaneData{Name: names[i].Name, Spans: [][]byte{p}})
	}
	m.batch, m.bytes = append(m.batch, put), m.bytes+b.rawBytes()
	return nil
}

// flush puts the batch. What is shed is put again once what is pending is
// durable and applied.
func (m *importing) flush(ctx context.Context) error {
	batch := m.batch
	m.batch, m.bytes = nil, 0
	for try := 1; len(batch) > 0; try++ {
		var again []PutBlock
		var last error
		for i, r := range m.spaces[m.space].Put(ctx, batch, PutOptions{bypassHost: true}) {
			switch {
			case r.Status == StatusShed:
				again, last = append(again, batch[i]), r.Err
			case r.Status != StatusOK:
				return r.Err
			case r.Existed:
				m.report.Existed++
				if r.Differs {
					m.report.Differs++
				}
			default:
				m.report.Stored++
			}
		}
		if batch = again; len(batch) == 0 {
			return nil
		}
		if try == importTriesMax {
			return last
		}
		if err := m.s.settleFor(ctx); err != nil {
			return err
		}
	}
	return nil
}
