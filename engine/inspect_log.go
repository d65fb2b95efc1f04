package engine

import (
	"encoding/hex"
	"fmt"
	"io"

	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

// logState sums up what the log holds.
func (f *offline) logState() LogState {
	rec := f.rec.log
	st := LogState{First: uint64(rec.First), End: uint64(rec.End), DurableMark: uint64(rec.Mark)}
	for i := range rec.Files {
		l := &rec.Files[i]
		st.Files++
		st.Bytes += l.SizeBytes
		st.Groups += l.Groups
		st.Records += l.Records
		if l.Torn != nil {
			st.TornBytes += l.Torn.DroppedBytes
		}
	}
	if c := f.changes; c != nil {
		st.Pending, st.Unproven = c.records, c.unproven
	}
	return st
}

// LogFileView is one file of the log.
type LogFileView struct {
	File      string `json:"file"`
	Base      uint64 `json:"base"`
	End       uint64 `json:"end"`
	SizeBytes int64  `json:"size_bytes"`
	Groups    int    `json:"groups"`
	Records   int    `json:"records"`
	// Torn is how the file's tail was cut off by a crash, Corrupt what durable
	// bytes are bad; both empty where the file is clean.
	Torn    string `json:"torn,omitempty"`
	Corrupt string `json:"corrupt,omitempty"`
}

// Log describes the log and its files, oldest first.
func (i *Inspector) Log() (LogState, []LogFileView) {
	files := []LogFileView{}
	for _, f := range i.f.rec.log.Files {
		v := LogFileView{File: f.Name, Base: uint64(f.Base), End: uint64(f.End), SizeBytes: f.SizeBytes, Groups: f.Groups, Records: f.Records}
		if f.Torn != nil && f.Torn.DroppedBytes > 0 {
			v.Torn = f.Torn.String()
		}
		if f.Corrupt != nil {
			v.Corrupt = f.Corrupt.Error()
		}
		files = append(files, v)
	}
	return i.f.logState(), files
}

// LogRecordView is one record of the log.
type LogRecordView struct {
	Position  uint64 `json:"position"`
	Durable   bool   `json:"durable"` // below the durable mark
	Applied   bool   `json:"applied"` // in the index
	Kind      string `json:"kind"`    // put, drop, quarantine, move, evict
	Namespace uint32 `json:"namespace,omitempty"`
	Hash      string `json:"hash,omitempty"` // hexadecimal
	Sequence  uint64 `json:"sequence,omitempty"`
	// Detail says where: of a put its extent, of a move from where to where.
	Detail string `json:"detail"`
}

// Records calls fn with each record that can be read, in order, until fn
// returns an error. A record that does not parse ends it with ErrDamaged.
func (i *Inspector) Records(fn func(LogRecordView) error) error {
	f := i.f
	_, err := wal.Recover(f.s.logOptions(), 0, func(w wal.Record) error {
		r, err := decodeRecord(w.Data)
		if err != nil {
			return fmt.Errorf("%w: position %d: %w", ErrDamaged, w.LSN, err)
		}
		return fn(LogRecordView{
			Position: uint64(w.LSN), Durable: w.End <= f.rec.log.Mark, Applied: w.LSN < f.rec.applied,
			Kind: r.Kind.String(), Namespace: r.Key.Namespace, Hash: hex.EncodeToString([]byte(r.Key.Hash)),
			Sequence: r.Entry.Seq, Detail: r.detail(),
		})
	})
	return err
}

func (r *record) detail() string {
	switch r.Kind {
	case recordPut:
		s := fmt.Sprintf("%v, %d pages", r.Entry.Address, r.Entry.Pages)
		if r.Entry.IsAlias() {
			s = fmt.Sprintf("%v, shares %v", r.Entry.Own.Address, r.Entry.Address)
		}
		return s
	case recordDrop:
		return fmt.Sprintf("tombstone for %v", r.From)
	case recordQuarantine:
		return r.Entry.Address.String()
	case recordMove:
		return fmt.Sprintf("%v to %v", r.From, r.Entry.Address)
	case recordEvict:
		return disk.SegmentName(r.Segment)
	}
	return ""
}

// DumpLog writes frames, groups and the verdict on each file as text; see
// wal.Dump.
func (i *Inspector) DumpLog(w io.Writer) error { return wal.Dump(w, i.f.s.logOptions()) }
