package engine

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/engine/layout"
)

// Inspector looks into a closed store and changes nothing in it. It holds the
// store's lock, so no owner writes meanwhile. It is not for concurrent use.
type Inspector struct{ f *offline }

// Inspect opens a closed store for a look. Errors: ErrLocked (it is in use),
// ErrNoStore, ErrDamaged (neither copy of STORE or NAMESPACES is whole),
// ErrUnsupported, those of the file system. Damage elsewhere does not keep it
// from opening.
func Inspect(dir string) (*Inspector, error) { return inspect(dir, privateOptions{}) }

func inspect(dir string, private privateOptions) (*Inspector, error) {
	f, err := openOffline(dir, private)
	if err != nil {
		return nil, err
	}
	return &Inspector{f}, nil
}

// Close gives up the lock.
func (i *Inspector) Close() error { return i.f.close() }

// Locate finds a block; see the function of this name.
func (i *Inspector) Locate(namespace uint32, hash []byte) (*Location, error) {
	return i.f.locate(index.Key{Namespace: namespace, Hash: string(hash)})
}

// StoreView is what a store is, and what its parts hold on disk.
type StoreView struct {
	Dir            string    `json:"dir"`
	UUID           string    `json:"uuid"` // hexadecimal
	Version        uint16    `json:"version"`
	Created        time.Time `json:"created"`
	SegmentBytes   int64     `json:"segment_bytes"` // of a new segment
	AlignmentBytes uint32    `json:"alignment_bytes"`
	IndexFormat    uint32    `json:"index_format"`
	Member         uint32    `json:"member"`
	Members        uint32    `json:"members"`
	// SegmentBound and SequenceBound are what NAMESPACES reserves: numbers
	// below them may have been used.
	SegmentBound  uint64 `json:"segment_bound"`
	SequenceBound uint64 `json:"sequence_bound"`
	// Findings are about copies of STORE and NAMESPACES that are damaged,
	// missing or behind.
	Findings []string `json:"findings"`

	Namespaces int   `json:"namespaces"`
	Segments   int   `json:"segments"`
	Sealed     int   `json:"sealed"`
	LiveBytes  int64 `json:"live_bytes"` // extents that the index refers to
	// The bytes allocated on disk.
	SegmentDiskBytes    int64 `json:"segment_disk_bytes"` // with tombstones
	LogDiskBytes        int64 `json:"log_disk_bytes"`
	IndexDiskBytes      int64 `json:"index_disk_bytes"`
	QuarantineDiskBytes int64 `json:"quarantine_disk_bytes"`

	Log LogState `json:"log"`
	// Probe is what the last Open that measured found out about the paths; nil
	// if no report is kept, or it cannot be read.
	Probe *ProbeReport `json:"probe"`
	// Rebuild says why the next Open will rebuild the index; empty if not.
	Rebuild string `json:"rebuild"`
}

// Store describes the store as a whole.
func (i *Inspector) Store() StoreView {
	s := i.f.s
	m := s.meta.Store()
	v := StoreView{
		Dir: s.dir, UUID: hex.EncodeToString(m.UUID[:]), Version: m.Version, Created: time.Unix(m.CreatedUnix, 0).UTC(),
		SegmentBytes: m.SegmentBytes, AlignmentBytes: m.AlignmentBytes, IndexFormat: m.PebbleFormat,
		Member: m.Member, Members: m.Members, Findings: []string{},
		Namespaces: len(s.meta.Namespaces()), SegmentDiskBytes: s.vol.AllocatedBytes(),
		LogDiskBytes: treeBytes(s.fs, logDir), IndexDiskBytes: treeBytes(s.fs, indexDir),
		QuarantineDiskBytes: treeBytes(s.fs, quarantineDir), Log: i.f.logState(), Rebuild: i.f.rec.lost,
		Probe: s.readProbe(),
	}
	v.SegmentBound, v.SequenceBound = s.meta.Bounds()
	for _, f := range i.f.found {
		v.Findings = append(v.Findings, f.String())
	}
	for _, g := range s.vol.Segments() {
		v.Segments++
		if g.Sealed {
			v.Sealed++
		}
	}
	for _, n := range s.live {
		v.LiveBytes += n
	}
	return v
}

// NamespaceView is a namespace as NAMESPACES has it.
type NamespaceView struct {
	Number      uint32        `json:"number"`
	Tenant      string        `json:"tenant"`
	Fingerprint string        `json:"fingerprint"` // hexadecimal
	Epoch       uint64        `json:"epoch"`
	Floor       uint64        `json:"floor"` // put sequences below it are dead
	Created     time.Time     `json:"created"`
	Layout      layout.Layout `json:"layout"`
}

// Namespaces lists the namespaces by number.
func (i *Inspector) Namespaces() []NamespaceView {
	out := []NamespaceView{}
	for _, n := range i.f.s.meta.Namespaces() {
		out = append(out, NamespaceView{
			Number: n.Number, Tenant: n.Tenant, Fingerprint: hex.EncodeToString(n.Fingerprint[:]),
			Epoch: n.Epoch, Floor: n.Floor, Created: time.Unix(n.CreatedUnix, 0).UTC(), Layout: n.Layout,
		})
	}
	return out
}

// Index counts and compares the records of the index, all of them. The
// problems are sentences. A lost or damaged index is in IndexState.Rebuild.
func (i *Inspector) Index(ctx context.Context) (st IndexState, problems []string, err error) {
	st = IndexState{Applied: uint64(i.f.rec.applied), DiskBytes: treeBytes(i.f.s.fs, indexDir), Rebuild: i.f.rec.lost}
	problems = []string{}
	if i.f.indexErr != nil {
		return st, problems, nil
	}
	c, err := i.f.s.idx.Check(ctx, i.f.s.tenantOf)
	if ctx.Err() != nil {
		return st, problems, context.Cause(ctx)
	}
	if err != nil {
		i.f.indexErr = err
		i.f.rec.lose(err.Error())
		st.Rebuild = i.f.rec.lost
		return st, problems, nil
	}
	st.Keys, st.Aliases, st.References, st.Contents = c.Keys, c.Aliases, c.Refs, c.Contents
	for _, p := range c.Problems {
		problems = append(problems, p.Reason)
	}
	return st, problems, nil
}
