package wal

import (
	"bufio"
	"fmt"
	"io"
)

// Dump writes what Recover sees to w: files, groups, records (LSN and length)
// and the verdict on each file. The text is for people, its form may change.
// Errors are those of w and of Recover; corruption is part of the text.
func Dump(w io.Writer, o Options) error {
	out := bufio.NewWriter(w)
	d := dumper{w: out}
	r, err := recoverDir(&o, 0, visitor{file: d.header, group: d.group})
	d.summary(r)
	if ferr := out.Flush(); err == nil && ferr != nil {
		err = fmt.Errorf("wal: write dump: %w", ferr)
	}
	return err
}

// dumper prints groups as they come. Errors of w wait for its Flush.
type dumper struct{ w *bufio.Writer }

func (d *dumper) group(g *group) error {
	c := g.commit
	fmt.Fprintf(d.w, "  group %d to %d: %d records, synced %d, mark %d, sum %016x\n",
		uint64(g.lsn), uint64(g.end), c.records, uint64(c.synced), uint64(c.mark), c.chainSum)
	return g.each(func(r Record) error {
		fmt.Fprintf(d.w, "    record %d: %d bytes\n", uint64(r.LSN), len(r.Data))
		return nil
	})
}

func (d *dumper) header(f *logFile) {
	h := &f.h
	fmt.Fprintf(d.w, "%s: base %d, %d bytes, salt %016x, features %#x %#x %#x\n",
		f.path, uint64(h.base), h.segmentBytes, h.salt, h.incompat, h.roCompat, h.compat)
	if h.prevBase != 0 {
		fmt.Fprintf(d.w, "  continues %s, sum %016x\n", fileName(h.prevBase), h.prevSum)
	}
}

func (d *dumper) summary(r *Recovered) {
	fmt.Fprintf(d.w, "log %d to %d, synced %d, mark %d\n", uint64(r.First), uint64(r.End), uint64(r.Synced), uint64(r.Mark))
	for _, f := range r.Files {
		fmt.Fprintf(d.w, "%s: %d to %d, %d groups, %d records: %s\n",
			f.Name, uint64(f.Base), uint64(f.End), f.Groups, f.Records, f.verdict())
	}
	for _, name := range r.Strange {
		fmt.Fprintf(d.w, "%s: not a log file, left alone\n", name)
	}
	if r.ReadOnly != nil {
		fmt.Fprintf(d.w, "%v\n", r.ReadOnly)
	}
}

// verdict says in words how the file ends.
func (f *FileInfo) verdict() string {
	switch {
	case f.Corrupt != nil:
		return fmt.Sprintf("CORRUPT at offset %d: %s", f.Corrupt.Offset, f.Corrupt.Reason)
	case !f.Examined:
		return "not examined, behind a corruption"
	case f.Torn != nil:
		return fmt.Sprintf("torn at offset %d, %d bytes: %s", f.Torn.Offset, f.Torn.DroppedBytes, f.Torn.Reason)
	}
	return "clean"
}
