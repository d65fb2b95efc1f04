package disk

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/sealstone/sealstone/internal/vfs"
)

var noDeadline = context.Background()

// TestVolumeLifeCycle runs the scripts under testdata/volume; -rewrite writes
// their answers anew. Commands:
//
//	open [readonly] [never]   close    crash [keep-all]
//	create id=N [moved]    put id=N seq=N bytes=(N,...)   hole id=N pages=N
//	sync id=N   seal id=N [keep=(SEQ,...)]   end id=N   seal-old id=N [keep=(SEQ,...)]
//	segments    files    allocated    scan id=N    footer id=N
//	bury id=N kind=K seq=N page=N    tombstones id=N
//	acquire id=N    release id=N    unlink id=N
//	write-file NAME    damage id=N page=N [end]
func TestVolumeLifeCycle(t *testing.T) {
	datadriven.Walk(t, "testdata/volume", func(t *testing.T, path string) {
		s := &script{mem: vfs.NewMem(), writers: map[uint64]*Writer{}, handles: map[uint64]*Handle{}}
		datadriven.RunTest(t, path, s.run)
		if s.v != nil {
			t.Error("the script leaves its volume open")
		}
	})
}

type script struct {
	mem     *vfs.Mem
	v       *Volume
	writers map[uint64]*Writer
	handles map[uint64]*Handle
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	var b strings.Builder
	if err := s.do(t, d, &b); err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	if b.Len() == 0 {
		return "ok\n"
	}
	return b.String()
}

func (s *script) do(t *testing.T, d *datadriven.TestData, b *strings.Builder) error {
	id := uint64(0)
	if d.HasArg("id") {
		d.ScanArgs(t, "id", &id)
	}
	switch d.Cmd {
	case "open", "close", "crash":
		return s.lifeCycle(d)
	case "create", "put", "hole", "sync", "seal", "end", "seal-old":
		return s.write(t, d, id, b)
	case "segments", "files", "allocated", "scan", "footer", "tombstones":
		return s.show(d, id, b)
	case "bury":
		return s.bury(t, d, id)
	case "acquire":
		h, err := s.v.Acquire(id)
		if err == nil {
			s.handles[id] = h
		}
		return err
	case "release":
		s.handles[id].Release()
		return nil
	case "unlink":
		return s.v.Unlink(id)
	case "write-file", "damage":
		return s.meddle(t, d, id)
	}
	return fmt.Errorf("no such command: %s", d.Cmd)
}

func (s *script) lifeCycle(d *datadriven.TestData) (err error) {
	switch d.Cmd {
	case "open":
		o := testOptions(s.mem)
		o.ReadOnly = d.HasArg("readonly")
		if d.HasArg("never") {
			o.Direct = DirectNever
		}
		s.v, err = OpenVolume(o)
	case "close":
		err, s.v = s.v.Close(), nil
	case "crash":
		// The old volume is of a process that is no more.
		s.mem = s.mem.CrashClone(vfs.CrashOptions{KeepAll: d.HasArg("keep-all")})
		s.v, s.writers, s.handles = nil, map[uint64]*Writer{}, map[uint64]*Handle{}
	}
	return err
}

func (s *script) write(t *testing.T, d *datadriven.TestData, id uint64, b *strings.Builder) (err error) {
	w := s.writers[id]
	switch d.Cmd {
	case "create":
		class := ClassFresh
		if d.HasArg("moved") {
			class = ClassMoved
		}
		s.writers[id], err = s.v.Create(id, class)
	case "put":
		var seqNo uint64
		d.ScanArgs(t, "seq", &seqNo)
		entry, ok, err := put(w, seqNo, intsArg(t, d, "bytes")...)
		if err == nil && ok {
			fmt.Fprintf(b, "page %d to %d\n", entry.Page, entry.EndPage())
		} else if err == nil {
			fmt.Fprintf(b, "full\n")
		}
		return err
	case "hole":
		page, ok := w.Reserve(intsArg(t, d, "pages")[0], 100)
		fmt.Fprintf(b, "page %d %v\n", page, ok)
		return w.Done(page, nil)
	case "sync":
		return w.Sync()
	case "seal":
		return w.Seal(keepOnly(w.Entries(), d, intsArg(t, d, "keep")))
	case "end":
		return w.Close()
	case "seal-old":
		entries, err := scanAll(s.v, id)
		if err != nil {
			return err
		}
		return s.v.SealOld(id, keepOnly(entries, d, intsArg(t, d, "keep")))
	}
	return err
}

// intsArg reads name=(1,2,3); absent is none.
func intsArg(t *testing.T, d *datadriven.TestData, name string) []int {
	for _, a := range d.CmdArgs {
		if a.Key != name {
			continue
		}
		out := make([]int, len(a.Vals))
		for i := range a.Vals {
			a.Scan(t, i, &out[i])
		}
		return out
	}
	return nil
}

// keepOnly leaves the entries of the given sequences, or all without keep=.
func keepOnly(entries []FooterEntry, d *datadriven.TestData, seqs []int) []FooterEntry {
	if !d.HasArg("keep") {
		return entries
	}
	var out []FooterEntry
	for _, e := range entries {
		for _, n := range seqs {
			if e.Seq == uint64(n) {
				out = append(out, e)
			}
		}
	}
	return out
}

func (s *script) show(d *datadriven.TestData, id uint64, b *strings.Builder) error {
	switch d.Cmd {
	case "segments":
		for _, i := range s.v.Segments() {
			fmt.Fprintf(b, "%x: class %d, %d bytes, %d allocated, sealed %v, sidecar %v\n",
				i.ID, i.Class, i.SizeBytes, i.AllocatedBytes, i.Sealed, i.HasSidecar)
			if i.HeaderErr != nil {
				fmt.Fprintf(b, "  %v\n", i.HeaderErr)
			}
		}
		for _, name := range s.v.Strange() {
			fmt.Fprintf(b, "strange: %s\n", name)
		}
	case "files":
		return listFiles(s.mem, ".", b)
	case "allocated":
		fmt.Fprintf(b, "%d (file system: %d)\n", s.v.AllocatedBytes(), s.mem.UsedBytes())
	case "scan", "footer":
		read := s.v.ReadFooter
		if d.Cmd == "scan" {
			read = func(id uint64) ([]FooterEntry, error) { return scanAll(s.v, id) }
		}
		entries, err := read(id)
		for _, e := range entries {
			fmt.Fprintf(b, "seq %d: page %d to %d, %d bytes, %s\n", e.Seq, e.Page, e.EndPage(), e.RawBytes, e.Hash)
		}
		return err
	case "tombstones":
		ts, err := s.v.ReadTombstones(id)
		for _, x := range ts {
			fmt.Fprintf(b, "%v page %d seq %d %s\n", x.Kind, x.Page, x.Seq, x.Hash)
		}
		return err
	}
	return nil
}

func listFiles(fs vfs.FS, dir string, b *strings.Builder) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		full := strings.TrimPrefix(dir+"/"+name, "./")
		info, err := fs.Stat(full)
		if err != nil {
			return err
		}
		if !info.IsDir {
			fmt.Fprintf(b, "%s %d\n", full, info.SizeBytes)
		} else if err := listFiles(fs, full, b); err != nil {
			return err
		}
	}
	return nil
}

func (s *script) bury(t *testing.T, d *datadriven.TestData, id uint64) error {
	var kind string
	var x Tombstone
	d.ScanArgs(t, "kind", &kind)
	d.ScanArgs(t, "seq", &x.Seq)
	x.Page = uint32(intsArg(t, d, "page")[0])
	x.Kind = map[string]TombstoneKind{"drop": TombstoneDrop, "quarantine": TombstoneQuarantine, "dead": TombstoneDead}[kind]
	x.Hash = fmt.Appendf(nil, "hash of block %08d", x.Seq)
	return s.v.AppendTombstones(id, []Tombstone{x})
}

// meddle does what others may do to the files.
func (s *script) meddle(t *testing.T, d *datadriven.TestData, id uint64) error {
	name, off := SegmentName(id), int64(0)
	if d.Cmd == "write-file" {
		name = d.CmdArgs[0].Key
	} else {
		off = int64(intsArg(t, d, "page")[0]) * PageBytes
	}
	f, err := s.mem.Open(name, vfs.Create)
	if err != nil {
		return err
	}
	if d.HasArg("end") { // the last bytes of the page before
		off -= 8
	}
	if _, err := f.WriteAt([]byte("garbage!"), off); err != nil {
		return err
	}
	return f.Close()
}
