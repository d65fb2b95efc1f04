package index

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
)

// Where Pebble would end the process the test needs a process of its own:
// the test binary runs itself again with this variable set.
const childEnv = "SEALSTONE_INDEX_CHILD"

const survived = "the process lives"

func TestMain(m *testing.M) {
	name := os.Getenv(childEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := children[name](); err != nil {
		fmt.Println("child:", err)
		os.Exit(3)
	}
	fmt.Println(survived)
	os.Exit(0)
}

func runChild(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), survived) {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// children are what Pebble meets. Each returns an error for a promise that
// was not kept.
var children = map[string]func() error{
	"manifest sync":     func() error { return fatal(vfs.OpSync, "MANIFEST", syscall.EIO) },
	"manifest write":    func() error { return fatal(vfs.OpWrite, "MANIFEST", syscall.EIO) },
	"manifest full":     func() error { return fatal(vfs.OpWrite, "MANIFEST", syscall.ENOSPC) },
	"directory sync":    func() error { return fatal(vfs.OpSyncDir, "index", syscall.EIO) },
	"table sync":        func() error { return trouble(vfs.OpSync, ".sst", syscall.EIO) },
	"table full":        func() error { return trouble(vfs.OpWrite, ".sst", syscall.ENOSPC) },
	"table creation":    func() error { return trouble(vfs.OpCreate, ".sst", syscall.EIO) },
	"table reads":       func() error { return readsFail(syscall.EIO) },
	"damaged tables":    damagedTables,
	"everything full":   everythingFull,
	"open without room": openWithoutRoom,
}

// TestLaw5ProcessSurvives runs each in a child: it must not exit or hang, and
// what the index answers must be errors.
func TestLaw5ProcessSurvives(t *testing.T) {
	for name := range children {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runChild(t, name)
		})
	}
}

// TestChildNoticesExit: a child that ends itself is not taken for a survivor.
func TestChildNoticesExit(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"=no such child")
	if out, err := cmd.CombinedOutput(); err == nil || strings.Contains(string(out), survived) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// faulty is a file system of which operations of one kind fail, once armed.
func faulty(kind vfs.OpKind, name string, err error) (vfs.FS, *atomic.Bool) {
	var armed atomic.Bool
	return vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		if armed.Load() && op.Kind == kind && strings.Contains(path.Base(op.Name), name) {
			return err
		}
		return nil
	}), &armed
}

// filled is an index with something in it, flushed, and something more.
func filled(ctx context.Context, o Options) (*DB, error) {
	d, err := Create(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := d.MarkComplete(ctx); err != nil {
		return nil, err
	}
	return d, fill(ctx, d, 0, 100)
}

func fill(ctx context.Context, d *DB, from, to int) error {
	return d.Update(ctx, map[uint64]int64{}, func(u *Batch) error {
		for i := from; i < to; i++ {
			if err := u.Bind(keyOf(i), entryAt(1, uint32(1+3*i), i, uint64(i))); err != nil {
				return err
			}
		}
		return u.SetApplied(uint64(to))
	})
}

func childContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), hangTimeout/2)
}

// within is a short deadline: a call that Pebble never answers ends with it.
func within(fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	return fn(ctx)
}

// fatal: Pebble gives up, and says so through Fatalf.
func fatal(kind vfs.OpKind, name string, cause error) error {
	ctx, cancel := childContext()
	defer cancel()
	fs, armed := faulty(kind, name, cause)
	told := make(chan string, 4)
	o := testOptions(fs)
	o.OnFail = func(reason string) { told <- reason }
	d, err := filled(ctx, o)
	if err != nil {
		return err
	}
	armed.Store(true)
	// The rest may be flushed by now.
	if err := fill(ctx, d, 100, 101); err != nil && !errors.Is(err, ErrFailed) {
		return err
	}
	if err := d.Flush(ctx); !errors.Is(err, ErrFailed) {
		return fmt.Errorf("flush: %w", err)
	}
	select {
	case reason := <-told:
		if !strings.Contains(reason, "pebble: ") {
			return fmt.Errorf("reason %q", reason)
		}
	case <-ctx.Done():
		return errors.New("nobody was told")
	}
	return mustBeFailed(ctx, d)
}

// mustBeFailed: every call answers ErrFailed, at once and for good.
func mustBeFailed(ctx context.Context, d *DB) error {
	_, getErr := d.Get(ctx, []Key{keyOf(1)}, false)
	_, keysErr := d.SegmentKeys(ctx, 1)
	for name, err := range map[string]error{
		"err": d.Err(), "get": getErr, "segment keys": keysErr, "flush": d.Flush(ctx), "mark": d.MarkComplete(ctx),
		"update": d.Update(ctx, nil, func(*Batch) error { return nil }), "close": d.Close(ctx),
	} {
		if !errors.Is(err, ErrFailed) {
			return fmt.Errorf("%s of a failed index: %v", name, err)
		}
	}
	return nil
}

// trouble: a flush fails, again and again. Reads go on, the flush's caller
// gets away, the attempts are slowed down, and when the cause is gone so is
// the trouble.
func trouble(kind vfs.OpKind, name string, cause error) error {
	ctx, cancel := childContext()
	defer cancel()
	fs, armed := faulty(kind, name, cause)
	d, err := filled(ctx, testOptions(fs))
	if err != nil {
		return err
	}
	armed.Store(true)
	begin := time.Now()
	if err := fill(ctx, d, 100, 101); err != nil { // the rest may be flushed by now
		return err
	}
	if err := within(d.Flush); err == nil {
		return errors.New("a flush that can not succeed did")
	}
	if err := d.Err(); err != nil {
		return err
	}
	if found, err := d.Get(ctx, []Key{keyOf(7)}, false); err != nil || !found[0].OK {
		return fmt.Errorf("get beside a failing flush: %v, %w", found, err)
	}
	if err := d.Trouble(); !errors.Is(err, cause) {
		return fmt.Errorf("trouble: %w", err)
	}
	// The waits double from 10 ms to 1 s: so many fit into the time, for each
	// of the flusher and the compactor.
	attempts := d.bg.count.Load()
	limit := uint64(2)
	for wait, sum := backoffFirst, time.Duration(0); sum < time.Since(begin); wait = min(2*wait, backoffMax) {
		limit, sum = limit+2, sum+wait
	}
	if attempts == 0 || attempts > limit {
		return fmt.Errorf("%d attempts in %v, at most %d expected", attempts, time.Since(begin), limit)
	}
	armed.Store(false)
	if err := d.Flush(ctx); err != nil {
		return fmt.Errorf("flush after the trouble: %w", err)
	}
	if got, err := d.DurableApplied(ctx); err != nil || got != 101 {
		return fmt.Errorf("durable up to %d: %w", got, err)
	}
	if err := d.Trouble(); err != nil {
		return fmt.Errorf("trouble has not ended: %w", err)
	}
	return d.Close(ctx)
}

// reopened closes an index of many keys and opens it on fs with a cold cache.
func reopened(ctx context.Context, mem *vfs.Mem, fs vfs.FS) (*DB, error) {
	d, err := filled(ctx, testOptions(mem))
	if err != nil {
		return nil, err
	}
	for from := 100; from < 3000; from += 100 {
		if err := fill(ctx, d, from, from+100); err != nil {
			return nil, err
		}
	}
	if err := d.Close(ctx); err != nil {
		return nil, err
	}
	return Open(ctx, testOptions(fs))
}

// readsFail: EIO is no damage. The call fails, the index does not.
func readsFail(cause error) error {
	ctx, cancel := childContext()
	defer cancel()
	mem := vfs.NewMem()
	var armed atomic.Bool
	d, err := reopened(ctx, mem, vfs.WithHook(mem, func(op vfs.Op) error {
		if armed.Load() && op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, ".sst") {
			return cause
		}
		return nil
	}))
	if err != nil {
		return err
	}
	armed.Store(true)
	if err := d.Keys(ctx, func(KeyEntry) error { return nil }); !errors.Is(err, cause) {
		return fmt.Errorf("keys while reads fail: %w", err)
	}
	armed.Store(false)
	if err := d.Err(); err != nil {
		return fmt.Errorf("a read error failed the index: %w", err)
	}
	count := 0
	if err := d.Keys(ctx, func(KeyEntry) error { count++; return nil }); err != nil || count != 3000 {
		return fmt.Errorf("%d keys: %w", count, err)
	}
	return d.Close(ctx)
}

// damagedTables spoils what is read from tables: found by Pebble's checksums,
// which by default end the process.
func damagedTables() error {
	ctx, cancel := childContext()
	defer cancel()
	mem := vfs.NewMem()
	var armed atomic.Bool
	d, err := reopened(ctx, mem, vfs.WithReadFilter(mem, func(name string, _ int64, p []byte) {
		if armed.Load() && strings.HasSuffix(name, ".sst") {
			p[len(p)/2] ^= 4
		}
	}))
	if err != nil {
		return err
	}
	armed.Store(true)
	if err := d.Keys(ctx, func(KeyEntry) error { return nil }); !errors.Is(err, ErrFailed) {
		return fmt.Errorf("keys of damaged tables: %w", err)
	}
	return mustBeFailed(ctx, d)
}

// everythingFull: no byte is left on the disk for anything.
func everythingFull() error {
	ctx, cancel := childContext()
	defer cancel()
	mem := vfs.NewMem()
	d, err := filled(ctx, testOptions(mem))
	if err != nil {
		return err
	}
	mem.SetCapacityBytes(mem.UsedBytes())
	if err := fill(ctx, d, 100, 101); err != nil {
		return err
	}
	if err := within(d.Flush); err == nil {
		return errors.New("a flush onto a full disk succeeded")
	}
	for i := 200; i < 4000; i += 100 { // until the memtables are full too
		if err := within(func(ctx context.Context) error { return fill(ctx, d, i, i+100) }); err != nil {
			break
		}
	}
	if err := within(func(ctx context.Context) error { return d.Close(ctx) }); err == nil {
		return errors.New("a close onto a full disk lost its data without a word")
	}
	return nil
}

// openWithoutRoom: an Open that fails for want of room says that and nothing
// worse, and leaves nothing behind that runs into closed tables.
func openWithoutRoom() error {
	ctx, cancel := childContext()
	defer cancel()
	mem := vfs.NewMem()
	d, err := filled(ctx, testOptions(mem))
	if err != nil {
		return err
	}
	for i := range 6 { // of tables that overlap, each Open makes one more
		if err := errors.Join(fill(ctx, d, 100*i, 100*i+100), d.Close(ctx)); err != nil {
			return err
		}
		if d, err = Open(ctx, testOptions(mem)); err != nil {
			return err
		}
	}
	if err := d.Close(ctx); err != nil {
		return err
	}
	for range 20 {
		for _, part := range []string{"OPTIONS", ".dbtmp"} {
			fs := vfs.WithHook(mem.CrashClone(vfs.CrashOptions{KeepAll: true}), func(op vfs.Op) error {
				if op.Mutates() && strings.Contains(op.Name+op.NewName, part) {
					return syscall.ENOSPC
				}
				return nil
			})
			if _, err := Open(ctx, testOptions(fs)); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrDamaged) {
				return fmt.Errorf("open without room for %s: %w", part, err)
			}
		}
	}
	return nil
}
