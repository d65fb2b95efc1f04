package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/tiers/host"
)

const (
	logDir        = "wal"
	indexDir      = "index"
	oldIndexDir   = "index.old" // on its way out, see removeIndex
	newIndexDir   = "index.new" // on its way in, see Rebuild
	quarantineDir = "quarantine"
	// metaAlignment is the alignment that the store's layout is made for.
	metaAlignment = 4096
	// openTimeout bounds each call to the index while opening.
	openTimeout = 10 * time.Minute
)

// Open opens the store in dir, and makes one if there is none (the directory
// too; its parent must exist). After a crash it replays the log since the last
// flush of the index; if index or log are lost or damaged it rebuilds the
// index from the segments. When it returns nil, the caller owns the store
// until Close.
//
// Errors: ErrLocked (a *meta.LockedError that names the owner), ErrCapacity,
// ErrNoStore, ErrDamaged, ErrUnsupported, ErrInvalid, ErrPathRefused, ErrDevice,
// and others of the file system.
func Open(dir string, o Options) (*Store, error) {
	start, hostAsked := time.Now(), o.HostCacheBytes
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := openOrSetAside(dir, o)
	if err != nil {
		return nil, err
	}
	s.hostAskedBytes = hostAsked
	s.tellMemory()
	s.openTime = time.Since(start)
	s.startBackground()
	s.events.add(o.private.now(), EventOpened, fmt.Sprintf("opened %s in %v (%v)", dir, s.openTime.Round(time.Millisecond), &s.openClock))
	return s, nil
}

func newStore(dir string, o Options) *Store {
	s := &Store{
		o: o, dir: dir,
		builders: make(chan struct{}, buildWorkers()),
		gate:     newByteGate(o.WriteInflightBytes), queue: newSubmitQueue(o.SubmitQueue),
		events: newEventRing(o.OnEvent), overlay: newOverlay(),
		inflight: map[index.Key]*inflightPut{}, spaces: map[uint32]*space{}, segs: map[uint64]*segment{},
		bad: map[disk.Address]struct{}{}, spoilt: map[disk.Address]struct{}{}, moved: make(chan struct{}), live: map[uint64]int64{},
		evictMu: newCtxMutex(), closeMu: newCtxMutex(), rollMu: [2]ctxMutex{newCtxMutex(), newCtxMutex()},
		stop: make(chan struct{}), kickSync: make(chan struct{}, 1), kickApply: make(chan struct{}, 1), kickEvict: make(chan struct{}, 1),
		kickQuota: make(chan struct{}, 1), accounts: map[string]*account{},
		closeFS: func() error { return nil },
	}
	if !o.ReadOnly { // its index stays as it is, and nothing runs in the background
		s.hint = newHintTable(o.HintBytes)
	}
	if o.HostCacheBytes > 0 {
		s.host = host.New(o.HostCacheBytes)
	}
	s.ghost.enabled = o.Admission == AdmitSecondTouch
	s.budget.perDay = o.WriteBudgetBytesPerDay
	s.pool = aligned.NewPool(o.MaxInflightBytes)
	s.lent = newByteGate(max(o.MaxInflightBytes/lentShare, 1))
	s.movePool = aligned.NewPool(o.movePoolBytes())
	s.life, s.endLife = context.WithCancel(context.Background())
	s.slots = newLane(opsMax, s.deviceHangs)
	s.asks, s.controls = newLane(asksMax, func(bool) {}), newLane(controlsMax, func(bool) {})
	s.scrub = newScrubber(s)
	s.health.changed = func(h Health) {
		s.event(EventHealth, "health is now %s %v", h.State, h.Reasons)
	}
	return s
}

func (s *Store) open() error {
	s.openClock.begin()
	if err := s.openFS(); err != nil {
		return err
	}
	if err := s.openMeta(); err != nil {
		return err
	}
	if err := s.planCapacity(); err != nil {
		return err
	}
	var err error
	if s.probe, err = s.probePaths(); err != nil {
		return err
	}
	s.openClock.done("probe")
	if err := s.openVolume(); err != nil {
		return err
	}
	s.openClock.done("segments")
	if err := s.syncOldLog(); err != nil {
		return err
	}
	return s.recover()
}

func (s *Store) openFS() error {
	if s.o.private.fs != nil {
		s.fs = s.o.private.fs
		return nil
	}
	if !s.o.ReadOnly && !s.o.MustExist {
		if err := os.Mkdir(s.dir, 0o700); err == nil {
			if err := syncParent(s.dir); err != nil {
				return fmt.Errorf("engine: make %s: %w", s.dir, err)
			}
		} else if !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("engine: make %s: %w", s.dir, err)
		}
	}
	osfs, err := vfs.OpenOS(s.dir)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrNoStore, err)
	}
	if err != nil {
		return fmt.Errorf("engine: open %s: %w", s.dir, err)
	}
	s.fs, s.closeFS = osfs, osfs.Close
	return nil
}

// syncParent makes the store's own name durable.
func syncParent(dir string) error {
	f, err := os.Open(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// openMeta takes the lock and reads STORE and NAMESPACES, or makes them.
func (s *Store) openMeta() error {
	if err := s.checkForeign(); err != nil {
		return err
	}
	if err := s.takeLock(); err != nil {
		return fmt.Errorf("engine: open %s: %w", s.dir, err)
	}
	m, found, err := meta.Open(s.fs, s.o.ReadOnly)
	if errors.Is(err, meta.ErrNoStore) && !s.o.MustExist && !s.o.ReadOnly {
		return s.create()
	}
	if err == nil && s.o.CreateOnly {
		return fmt.Errorf("engine: open %s: %w (CreateOnly is set)", s.dir, meta.ErrExists)
	}
	if err != nil {
		return fmt.Errorf("engine: open %s: %w", s.dir, metaError(err))
	}
	if err := m.Err(); err != nil && !s.o.ReadOnly {
		return fmt.Errorf("engine: open %s: %w", s.dir, err)
	}
	for _, f := range found {
		s.event(EventHealed, "%s", f)
	}
	s.setMeta(m)
	return nil
}

func (s *Store) takeLock() (err error) {
	if s.o.ReadOnly {
		return s.holdReadOnly()
	}
	s.lock, err = meta.AcquireLock(s.fs, meta.CurrentOwner())
	return err
}

// metaError adds the engine's sentinel to an error of package meta.
func metaError(err error) error {
	switch {
	case errors.Is(err, meta.ErrUnsupported):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	case errors.Is(err, meta.ErrDamaged):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

func (s *Store) setMeta(m *meta.Meta) {
	s.meta, s.uuid, s.key = m, m.Store().UUID, m.Key()
	for _, n := range m.Namespaces() {
		s.addSpaceLocked(n)
	}
	for _, sp := range s.spaces { // a tenant's lowest namespace may have come later
		s.addSpaceLocked(sp.Namespace)
	}
}

func (s *Store) create() error {
	size, _, err := s.roomToBegin() // before anything is made
	if err != nil {
		return err
	}
	m, err := meta.Create(s.fs, meta.CreateParams{
		UUID: s.o.private.uuid, Secret: s.o.private.secret,
		SegmentBytes: size, AlignmentBytes: metaAlignment,
		PebbleFormat: index.FormatVersion, CreatedUnix: s.o.private.now().Unix(),
	})
	if err != nil {
		return fmt.Errorf("engine: create %s: %w", s.dir, err)
	}
	s.setMeta(m)
	return nil
}

// ours are the names that a store has in its directory.
var ours = []string{
	"LOCK", meta.StoreFile, meta.StoreCopyFile, meta.NamespacesFile, meta.NamespacesCopyFile,
	logDir, indexDir, oldIndexDir, newIndexDir, "segments", quarantineDir, probeFile, scrubFile,
	"lost+found", // of the file system, where DIR is its root
}

// checkForeign refuses to make a store among other people's files. Beside a
// store they are counted and reported, never touched.
func (s *Store) checkForeign() error {
	names, err := s.fs.List(".")
	if err != nil {
		return fmt.Errorf("engine: list %s: %w", s.dir, err)
	}
	var strange []string
	for _, n := range names {
		switch {
		case isOurs(n):
		case isKept(n):
			s.countKept(n)
		default:
			strange = append(strange, n)
		}
	}
	if len(strange) == 0 {
		return nil
	}
	if !slices.Contains(names, meta.StoreFile) && !slices.Contains(names, meta.StoreCopyFile) {
		return fmt.Errorf("%w: %s holds no store, but other files (%s …): give an empty or a new directory", ErrInvalid, s.dir, strange[0])
	}
	bytes := int64(0)
	for _, n := range strange {
		bytes += treeBytes(s.fs, n)
	}
	s.strangeBytes += bytes
	s.event(EventStrangeFile, "%d names in the store's directory are not the store's (%s …), %d bytes; they count against the capacity and stay", len(strange), strange[0], bytes)
	return nil
}

// countKept counts a directory that a repair or an Open has put there.
func (s *Store) countKept(name string) {
	bytes := treeBytes(s.fs, name)
	s.strangeBytes += bytes
	s.event(EventStrangeFile, "%s holds %d bytes that were kept or set aside (see its %s); they count against the capacity until somebody removes it", name, bytes, manifestName)
}

// isOurs says whether a name in the directory is one that a store, or a
// probe of the directory, has there.
func isOurs(n string) bool {
	return slices.Contains(ours, n) || slices.Contains(ours, trimTemp(n)) || disk.IsProbeScratch(n)
}

func trimTemp(n string) string {
	if ext := filepath.Ext(n); ext == ".tmp" {
		return n[:len(n)-len(ext)]
	}
	return n
}

// treeBytes sums up what a file or a tree holds on disk, as far as it can be
// seen.
func treeBytes(fs vfs.FS, name string) int64 {
	i, err := fs.Stat(name)
	if err != nil {
		return 0
	}
	sum := i.AllocatedBytes
	if i.IsDir {
		names, _ := fs.List(name)
		for _, n := range names {
			sum += treeBytes(fs, name+"/"+n)
		}
	}
	return sum
}

// heldBytes is what the store holds on disk before it is open.
func (s *Store) heldBytes() int64 {
	held := int64(0)
	for _, n := range ours {
		held += treeBytes(s.fs, n)
	}
	return held
}

// roomToBegin is the segment size of a new store, and its room.
func (s *Store) roomToBegin() (segmentBytes int64, r room, err error) {
	u, err := s.fs.Statfs()
	if err != nil {
		return 0, r, fmt.Errorf("engine: create %s: %w", s.dir, err)
	}
	capacity := s.o.CapacityBytes
	if capacity == 0 {
		capacity = defaultCapacity(u, s.strangeBytes, s.capacityLimit())
	}
	capacity -= s.strangeBytes
	segmentBytes = defaultSegmentBytes(s.o, capacity)
	r, err = planRoom(s.o, capacity, segmentBytes, u)
	return segmentBytes, r, s.strangeTook(err)
}

// strangeTook adds to an error of too little capacity what others have of it.
func (s *Store) strangeTook(err error) error {
	if s.strangeBytes == 0 || !errors.Is(err, ErrCapacity) {
		return err
	}
	return fmt.Errorf("%w; %d bytes more of the capacity are taken by files in %s that are not the store's, or were kept or set aside: remove what nobody needs, or raise CapacityBytes", err, s.strangeBytes, s.dir)
}

func (s *Store) planCapacity() error {
	u, err := s.fs.Statfs()
	if err != nil {
		return fmt.Errorf("engine: open %s: %w", s.dir, err)
	}
	capacity := s.o.CapacityBytes
	if capacity == 0 {
		capacity = defaultCapacity(u, s.heldBytes()+s.strangeBytes, s.capacityLimit())
	}
	size := s.meta.Store().SegmentBytes
	if s.o.private.workshop {
		s.fitWorkshop(size, u)
		capacity = s.o.CapacityBytes
	}
	s.room, err = planRoom(s.o, capacity-s.strangeBytes, size, u)
	err = s.strangeTook(err)
	s.room.capacityBytes = capacity
	if err != nil && (s.o.ReadOnly || s.o.private.workshop) { // no blocks come in: what there is will do
		err = nil
	}
	return err
}

func (s *Store) openVolume() error {
	direct := disk.DirectAuto
	if s.probe.Chosen == disk.PathBuffered {
		direct = disk.DirectNever // writes follow
	}
	v, err := disk.OpenVolume(disk.VolumeOptions{
		FS: s.fs, UUID: s.uuid, Key: s.key, SegmentBytes: s.room.segmentBytes,
		MaxOpenFiles: s.o.MaxOpenFiles, Probe: s.probe, Direct: direct, ReadOnly: s.o.ReadOnly,
		MaxBlockBytes: min(s.o.MaxBlockBytes, s.room.segmentBytes/2), IO: s.paths.writer, OnFreed: s.segmentFreed,
	})
	if err != nil {
		return fmt.Errorf("engine: open segments: %w", err)
	}
	s.vol = v
	if names := v.Strange(); len(names) > 0 {
		s.event(EventStrangeFile, "%d files under segments/ are not the store's (%s …); they stay", len(names), names[0])
	}
	if err := s.openPaths(); err != nil {
		return fmt.Errorf("engine: reader: %w", err)
	}
	if !s.o.ReadOnly {
		if err := s.fs.MkdirAll(quarantineDir); err != nil {
			return fmt.Errorf("engine: make %s: %w", quarantineDir, err)
		}
	}
	held, err := evidenceHeld(s.fs)
	if err != nil { // nobody needs it to serve blocks
		held = s.room.quarantineBytes
		s.event(EventQuarantine, "what %s/ holds can not be counted (%v): no more evidence is kept", quarantineDir, err)
	}
	s.count.evidenceBytes.Store(held)
	return nil
}

func (s *Store) startBackground() {
	if s.o.private.noBackground || s.o.ReadOnly {
		return
	}
	s.workers.Add(6)
	go s.quotaLoop()
	go s.hintLoop()
	go s.syncLoop()
	go s.applyLoop()
	go s.evictLoop()
	go s.scrubLoop()
}

// openContext bounds a call to the index while opening.
func openContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), openTimeout)
}
