package disk

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/vfs"
)

// liarFS puts another file in the place of each that is opened.
type liarFS struct {
	vfs.FS
	wrap func(f vfs.File, direct bool) vfs.File
}

func (l liarFS) Open(name string, flags vfs.OpenFlag) (vfs.File, error) {
	f, err := l.FS.Open(name, flags)
	if err != nil {
		return nil, err
	}
	return l.wrap(f, flags&vfs.Direct != 0), nil
}

func (l liarFS) Lock(name string) (vfs.File, error) {
	f, err := l.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	return l.wrap(f, false), nil
}

// liarFile does what its functions say, where they are set.
type liarFile struct {
	vfs.File
	write func(p []byte, off int64) (int, error)
	read  func(p []byte, off int64) (int, error)
}

func (l liarFile) WriteAt(p []byte, off int64) (int, error) {
	if l.write == nil {
		return l.File.WriteAt(p, off)
	}
	return l.write(p, off)
}

func (l liarFile) Readv(bufs [][]byte, off int64) (int, error) {
	if l.read == nil {
		return l.File.Readv(bufs, off)
	}
	return l.read(bufs[0], off)
}

// onDirect lies on files past the page cache only.
func onDirect(make func(f vfs.File) vfs.File) func(vfs.File, bool) vfs.File {
	return func(f vfs.File, direct bool) vfs.File {
		if direct {
			return make(f)
		}
		return f
	}
}

func mustProbe(t *testing.T, o ProbeOptions) *ProbeReport {
	t.Helper()
	r, err := Probe(context.Background(), o)
	must(t, err)
	if names, err := o.FS.List("."); err == nil {
		for _, n := range names {
			if IsProbeScratch(n) {
				t.Errorf("%s is still there", n)
			}
		}
	}
	return r
}

// wantPath checks a path of a report: its state, a part of its reason, its
// errno.
func wantPath(t *testing.T, r *ProbeReport, name PathName, state PathState, reason, errno string) {
	t.Helper()
	p := r.Path(name)
	if p.State != state || !strings.Contains(p.Reason, reason) || p.Errno != errno {
		t.Errorf("%s is %s (%s) %q, want %s (%s) %q", name, p.State, p.Errno, p.Reason, state, errno, reason)
	}
	if (p.State == PathProven) != (p.Reason == "" && p.AlignmentBytes > 0) {
		t.Errorf("%s is %s, with reason %q and alignment %d", name, p.State, p.Reason, p.AlignmentBytes)
	}
}

// TestLaw6ProbeLiars: a file system that does not do what it says is refused, on
// the paths where it lies and on no other.
func TestLaw6ProbeLiars(t *testing.T) {
	fail := func(errno syscall.Errno) func([]byte, int64) (int, error) {
		return func([]byte, int64) (int, error) { return 0, errno }
	}
	for _, tc := range []struct {
		name          string
		wrap          func(f vfs.File, direct bool) vfs.File
		reason, errno string
		both          bool // the buffered path is refused likewise
	}{
		{"takes O_DIRECT, then EINVAL at write", onDirect(func(f vfs.File) vfs.File { return liarFile{File: f, write: fail(syscall.EINVAL)} }),
			"direct write: invalid argument", "EINVAL", false},
		{"EINVAL at read", onDirect(func(f vfs.File) vfs.File { return liarFile{File: f, read: fail(syscall.EINVAL)} }),
			"direct read: invalid argument", "EINVAL", false},
		{"EIO at write", func(f vfs.File, _ bool) vfs.File { return liarFile{File: f, write: fail(syscall.EIO)} },
			"write: input/output error", "EIO", true},
		{"takes everything, does nothing", func(f vfs.File, _ bool) vfs.File {
			return liarFile{File: f, write: func(p []byte, off int64) (int, error) {
				_, err := f.WriteAt(make([]byte, len(p)), off)
				return len(p), err
			}}
		}, "content: ", "", true},
		{"direct writes go nowhere", onDirect(func(f vfs.File) vfs.File {
			return liarFile{File: f, write: func(p []byte, off int64) (int, error) { return len(p), f.Truncate(off + int64(len(p))) }}
		}), "direct read: content: ", "", false},
		{"one flipped bit", onDirect(func(f vfs.File) vfs.File {
			return liarFile{File: f, read: func(p []byte, off int64) (int, error) {
				n, err := f.ReadAt(p, off)
				p[n-1] ^= 0x10
				return n, err
			}}
		}), "content: ", "", false},
		{"stale page cache", func(f vfs.File, direct bool) vfs.File {
			if direct {
				return f
			}
			return liarFile{File: f, read: func(p []byte, off int64) (int, error) {
				if off >= directPart {
					clear(p)
					return len(p), nil
				}
				return f.ReadAt(p, off)
			}}
		}, "buffered read of what was written directly: content: ", "", false},
		{"short", onDirect(func(f vfs.File) vfs.File {
			return liarFile{File: f, read: func(p []byte, off int64) (int, error) {
				n, _ := f.ReadAt(p[:len(p)/2], off)
				return n, io.EOF
			}}
		}), "unexpected EOF", "", false},
		{"writes beside the destination", onDirect(func(f vfs.File) vfs.File {
			return liarFile{File: f, read: func(p []byte, off int64) (int, error) {
				n, err := f.ReadAt(p, off)
				beside := unsafe.Slice(unsafe.SliceData(p), len(p)+1)
				beside[len(p)] = 0
				return n, err
			}}
		}), "changed memory beside its destination", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, quick := range []bool{true, false} {
				r := mustProbe(t, ProbeOptions{FS: liarFS{vfs.NewMem(), tc.wrap}, Quick: quick})
				wantPath(t, r, PathPread, PathRefused, tc.reason, tc.errno)
				chosen := PathBuffered
				if tc.both {
					wantPath(t, r, PathBuffered, PathRefused, tc.reason, tc.errno)
					chosen = ""
				} else {
					wantPath(t, r, PathBuffered, PathProven, "", "")
				}
				if r.Chosen != chosen || r.DirectRefusal() == "" {
					t.Errorf("chosen %q because %s", r.Chosen, r.ChosenBecause)
				}
				if content := strings.Contains(tc.reason, "content") || strings.Contains(tc.reason, "beside"); r.Path(PathPread).Content != content {
					t.Errorf("content is %v: %s", !content, r.Summary())
				}
			}
		})
	}
}

// pickyFile does direct I/O at multiples only.
func pickyFile(f vfs.File, mem, off, length int) vfs.File {
	check := func(p []byte, at int64) error {
		if !aligned.IsAligned(p, mem) || at%int64(off) != 0 || len(p)%length != 0 {
			return syscall.EINVAL
		}
		return nil
	}
	return liarFile{File: f,
		write: func(p []byte, at int64) (int, error) {
			if err := check(p, at); err != nil {
				return 0, err
			}
			return f.WriteAt(p, at)
		},
		read: func(p []byte, at int64) (int, error) {
			if err := check(p, at); err != nil {
				return 0, err
			}
			return f.ReadAt(p, at)
		},
	}
}

// TestProbeAlignments: each alignment is found by itself; what a page does
// not meet is refused and named.
func TestProbeAlignments(t *testing.T) {
	for _, tc := range []struct {
		mem, off, length int
		reason           string // empty: proven
	}{
		{512, 512, 512, ""},
		{512, 4096, 4096, ""},
		{4096, 512, 2048, ""},
		{512, 16384, 16384, "offset at multiples of 16384, length at multiples of 16384"},
		{8192, 512, 512, "memory at multiples of 8192"},
		{512, 512, 65536, "length at multiples of 65536"},
		{1 << 20, 512, 512, "direct write: invalid argument"}, // beyond what is searched
	} {
		wrap := onDirect(func(f vfs.File) vfs.File { return pickyFile(f, tc.mem, tc.off, tc.length) })
		r := mustProbe(t, ProbeOptions{FS: liarFS{vfs.NewMem(), wrap}, Quick: tc.reason != ""})
		if tc.reason == "" {
			wantPath(t, r, PathPread, PathProven, "", "")
			continue
		}
		wantPath(t, r, PathPread, PathRefused, tc.reason, "EINVAL")
		wantPath(t, r, PathBuffered, PathProven, "", "")
		if tc.mem > maxAlignBytes {
			continue
		}
		d := r.Direct
		if d.MemBytes != int64(tc.mem) || d.OffsetBytes != int64(tc.off) || d.LengthBytes != int64(tc.length) {
			t.Errorf("found %d, %d, %d, want %d, %d, %d", d.MemBytes, d.OffsetBytes, d.LengthBytes, tc.mem, tc.off, tc.length)
		}
	}
}

// TestProbeStalls: a device that does not answer costs the time of the probe
// and no more; what was proven before stays.
func TestProbeStalls(t *testing.T) {
	for _, tc := range []struct {
		name     string
		kind     vfs.OpKind
		count    int // which of these stalls
		buffered PathState
	}{
		{"lock", vfs.OpLock, 1, PathRefused},
		{"first write", vfs.OpWrite, 1, PathRefused},
		{"first sync", vfs.OpSync, 1, PathRefused},
		{"direct write", vfs.OpWrite, 2, PathProven},
		{"direct read", vfs.OpRead, 2, PathProven},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var mu sync.Mutex
			seen, release, gone := 0, make(chan struct{}), make(chan struct{})
			mem := vfs.NewMem()
			fs := vfs.WithHook(mem, func(op vfs.Op) error {
				mu.Lock()
				if op.Kind == tc.kind {
					seen++
				}
				stall := op.Kind == tc.kind && seen == tc.count
				mu.Unlock()
				if stall {
					<-release
				}
				if op.Kind == vfs.OpRemove {
					close(gone)
				}
				return nil
			})
			r, err := Probe(context.Background(), ProbeOptions{FS: fs, Quick: true, Timeout: 50 * time.Millisecond})
			must(t, err)
			wantPath(t, r, PathPread, PathRefused, "no answer within 50ms", "")
			wantPath(t, r, PathUring, PathRefused, "no answer within 50ms", "")
			if got := r.Path(PathBuffered); got.State != tc.buffered {
				t.Errorf("buffered is %s: %s", got.State, got.Reason)
			}
			if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "stalls") {
				t.Errorf("warnings %q", r.Warnings)
			}
			close(release)
			<-gone // the probe that was left behind removes its file
		})
	}
}

func TestProbeCanceled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	cancel(why)
	if _, err := Probe(ctx, ProbeOptions{FS: vfs.NewMem()}); !errors.Is(err, why) {
		t.Errorf("%v, want %v", err, why)
	}
	for _, o := range []ProbeOptions{{}, {FS: vfs.NewMem(), Timeout: -1}, {FS: vfs.NewMem(), MeasureBytesMax: -1}} {
		if _, err := Probe(context.Background(), o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestProbeFull: where nothing can be written, what is there is read.
func TestProbeFull(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES} {
		for _, kind := range []vfs.OpKind{vfs.OpLock, vfs.OpWrite} {
			for _, name := range []string{"", "some", "segments/07/" + strings.Repeat("0", 14) + "07.seg"} {
				mem := vfs.NewMem()
				if name != "" {
					must(t, mem.MkdirAll("segments/07"))
					f, err := mem.Open(name, vfs.Create)
					must(t, err)
					_, err = f.WriteAt(make([]byte, 2*PageBytes), 0)
					must(t, errors.Join(err, f.Close()))
				}
				fs := vfs.WithHook(mem, func(op vfs.Op) error {
					if op.Kind == kind {
						return errno
					}
					return nil
				})
				r := mustProbe(t, ProbeOptions{FS: fs, Quick: true})
				if !r.ReadOnly {
					t.Errorf("%v: not read-only", errno)
				}
				if name == "" {
					wantPath(t, r, PathPread, PathUntried, errno.Error(), errnoName(errno))
					wantPath(t, r, PathBuffered, PathUntried, errno.Error(), errnoName(errno))
					continue
				}
				wantPath(t, r, PathPread, PathProven, "", "")
				wantPath(t, r, PathBuffered, PathProven, "", "")
				if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], errno.Error()) {
					t.Errorf("notes %q", r.Notes)
				}
			}
		}
	}
}

// TestProbeFillsUp: room that ends between the two paths leaves one proven and
// the other untried.
func TestProbeFillsUp(t *testing.T) {
	mem, writes := vfs.NewMem(), 0
	r := mustProbe(t, ProbeOptions{Quick: true, FS: vfs.WithHook(mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite {
			if writes++; writes == 2 {
				return syscall.ENOSPC
			}
		}
		return nil
	})})
	wantPath(t, r, PathBuffered, PathProven, "", "")
	wantPath(t, r, PathPread, PathUntried, "no space left on device", "ENOSPC")
	if r.Chosen != PathBuffered {
		t.Error(r.Summary())
	}
}

// TestProbeReadOnlyTouchesNothing: a probe that may not write does not.
func TestProbeReadOnlyTouchesNothing(t *testing.T) {
	mem := vfs.NewMem()
	f, err := mem.Open("file", vfs.Create)
	must(t, err)
	_, err = f.WriteAt([]byte(strings.Repeat("x", PageBytes)), 0)
	must(t, errors.Join(err, f.Close()))
	fs := vfs.WithHook(mem, func(op vfs.Op) error {
		if op.Mutates() {
			t.Errorf("%v", op)
		}
		return nil
	})
	r := mustProbe(t, ProbeOptions{FS: fs, ReadOnly: true, Measure: true})
	wantPath(t, r, PathPread, PathProven, "", "")
	wantPath(t, r, PathBuffered, PathProven, "", "")
	if !r.ReadOnly {
		t.Error("not read-only")
	}
}

// TestProbeReadOnlyChanging: a file that somebody writes to while it is read is
// no proof of wrong bytes.
func TestProbeReadOnlyChanging(t *testing.T) {
	for change := 1; change <= 3; change++ {
		mem := vfs.NewMem()
		f, err := mem.Open("file", vfs.Create)
		must(t, err)
		defer f.Close()
		_, err = f.WriteAt([]byte(strings.Repeat("x", PageBytes)), 0)
		must(t, err)
		reads := 0
		fs := vfs.WithHook(mem, func(op vfs.Op) error {
			if op.Kind == vfs.OpRead {
				if reads++; reads == change {
					_, err := f.WriteAt([]byte("changed"), 100)
					return err
				}
			}
			return nil
		})
		r := mustProbe(t, ProbeOptions{FS: fs, ReadOnly: true})
		wantPath(t, r, PathPread, PathProven, "", "")
		wantPath(t, r, PathBuffered, PathProven, "", "")
	}
}

// TestProbeScratch: a file that a probe left is taken over, and one of a probe
// at work is left alone.
func TestProbeScratch(t *testing.T) {
	eachFS(t, func(t *testing.T, fs vfs.FS) {
		for i := range 3 {
			f, err := fs.Open(scratchName(i), vfs.Create)
			must(t, err)
			_, err = f.WriteAt([]byte("left behind"), 0)
			must(t, errors.Join(err, f.Close()))
		}
		busy, err := fs.Lock(scratchName(1))
		must(t, err)
		r, err := Probe(context.Background(), ProbeOptions{FS: fs})
		must(t, err)
		wantPath(t, r, PathBuffered, PathProven, "", "")
		names, err := fs.List(".")
		must(t, err)
		var left []string
		for _, n := range names {
			if IsProbeScratch(n) {
				left = append(left, n)
			}
		}
		if len(left) != 1 || left[0] != scratchName(1) {
			t.Errorf("left %q, want the one that is locked", left)
		}
		must(t, busy.Close())
	})
}

func TestProbesSideBySide(t *testing.T) {
	eachFS(t, func(t *testing.T, fs vfs.FS) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				r, err := Probe(context.Background(), ProbeOptions{FS: fs, Quick: true})
				if err != nil || !r.Proven(PathBuffered) {
					t.Errorf("%v, %s", err, r.Summary())
				}
			})
		}
		all.Wait()
		if names, err := fs.List("."); err != nil || len(names) > 0 && IsProbeScratch(names[len(names)-1]) {
			t.Errorf("left %q, %v", names, err)
		}
	})
}

// TestScratchNamesTaken: what stands under the name and is no file is left
// alone.
func TestScratchNamesTaken(t *testing.T) {
	eachFS(t, func(t *testing.T, fs vfs.FS) {
		must(t, fs.Mkdir(scratchName(0)))
		r, err := Probe(context.Background(), ProbeOptions{FS: fs})
		must(t, err)
		wantPath(t, r, PathBuffered, PathProven, "", "")
		if info, err := fs.Stat(scratchName(0)); err != nil || !info.IsDir {
			t.Errorf("%+v, %v", info, err)
		}
		for i := 1; i < scratchNamesMax; i++ {
			must(t, fs.Mkdir(scratchName(i)))
		}
		r, err = Probe(context.Background(), ProbeOptions{FS: fs})
		must(t, err)
		wantPath(t, r, PathBuffered, PathRefused, "all 16 names for it are taken", "")
	})
}

// TestProbeLeavesNothingRunning: neither a probe that ends nor one that is
// left behind by its deadline leaves a goroutine for good.
func TestProbeLeavesNothingRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	release := make(chan struct{})
	fs := vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			<-release
		}
		return nil
	})
	r, err := Probe(context.Background(), ProbeOptions{FS: fs, Timeout: 20 * time.Millisecond})
	must(t, err)
	wantPath(t, r, PathBuffered, PathRefused, "no answer within", "")
	close(release)
	eachFS(t, func(t *testing.T, fs vfs.FS) {
		_, err := Probe(context.Background(), ProbeOptions{FS: fs, Measure: true})
		must(t, err)
	})
	goleak.VerifyNone(t, before)
}

// TestProbeDirectForbidden: EPERM of direct I/O alone is a refusal of that,
// and says nothing about writing.
func TestProbeDirectForbidden(t *testing.T) {
	wrap := onDirect(func(f vfs.File) vfs.File {
		return liarFile{File: f, write: func([]byte, int64) (int, error) { return 0, syscall.EPERM }}
	})
	r := mustProbe(t, ProbeOptions{FS: liarFS{vfs.NewMem(), wrap}, Quick: true})
	wantPath(t, r, PathPread, PathRefused, "operation not permitted", "EPERM")
	wantPath(t, r, PathBuffered, PathProven, "", "")
	if r.ReadOnly {
		t.Error("taken for a directory that can not be written")
	}
}

func TestScratchNames(t *testing.T) {
	for i := range scratchNamesMax {
		if !IsProbeScratch(scratchName(i)) {
			t.Errorf("%s is no scratch file", scratchName(i))
		}
	}
	for _, n := range []string{"", "probe.tmp", "sealstone-probe", "sealstone-probe-.tmp", "sealstone-probe-100.tmp", "xsealstone-probe.tmp", "sealstone-probe.tmp.tmp"} {
		if IsProbeScratch(n) {
			t.Errorf("%s is taken for a scratch file", n)
		}
	}
}
