package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

// metadata reports copies of STORE and NAMESPACES that are not as they should
// be. One that is a generation behind is what a crash in the middle of a
// change leaves.
func (v *verifier) metadata() {
	for _, f := range v.found {
		var have, want uint64
		if n, _ := fmt.Sscanf(f.Problem, "generation %d, behind %d", &have, &want); n == 2 {
			v.out.note("%s: %s: a change was cut off; the next open completes it", f.File, f.Problem)
			continue
		}
		v.out.add(Damage{Kind: metadataKind(f.File), File: f.File, Offset: -1, Reason: f.Problem + "; the next open restores it from the other copy"})
	}
}

// metadataLost reports a store that can not be opened at all.
func (v *verifier) metadataLost(lost *meta.DamagedError) {
	for _, f := range lost.Findings {
		v.out.add(Damage{Kind: metadataKind(f.File), File: f.File, Offset: -1, Reason: f.Problem})
	}
	v.out.note("nothing else was verified: %s", lost.Advice)
}

func metadataKind(file string) DamageKind {
	if strings.HasPrefix(file, meta.NamespacesFile) {
		return DamageNamespaces
	}
	return DamageStore
}

// log reports on the log, which openRecords has read.
func (v *verifier) log() {
	v.out.r.Log = v.logState()
	st := &v.out.r.Log
	rot := false
	for _, f := range v.rec.log.Files {
		if f.Corrupt != nil {
			rot = true
			v.out.err(DamageLog, f.Name, 0, f.Corrupt)
		}
	}
	if bad := v.badRecord(); bad != "" {
		v.out.add(Damage{Kind: DamageLog, File: logDir, Offset: -1, Reason: bad})
	} else if !rot && v.logLost != "" {
		v.out.add(Damage{Kind: DamageLog, File: logDir, Offset: -1, Reason: v.logLost})
	}
	if st.TornBytes > 0 {
		v.out.note("the log has a torn tail of %d bytes, as a crash leaves it", st.TornBytes)
	}
	if st.Pending > 0 {
		v.out.note("%d log records are not in the index yet; the next open applies them", st.Pending)
	}
	if st.Unproven > 0 {
		v.out.note("%d log records are behind the durable mark and refer to extents that do not verify: a power cut took them; the next open drops the records", st.Unproven)
	}
}

// badRecord finds the first record that does not parse.
func (v *verifier) badRecord() string {
	at := wal.LSN(0)
	_, err := wal.Recover(v.s.logOptions(), 0, func(w wal.Record) error {
		at = w.LSN
		_, err := decodeRecord(w.Data)
		return err
	})
	var bad errBadRecord
	if !errors.As(err, &bad) {
		return "" // another error has ended openRecords
	}
	return fmt.Sprintf("the record at position %d: %s", at, bad.reason)
}

// index checks the index against itself and returns the segments that its
// records refer to. If it can not be read the store is verified without it.
func (v *verifier) index(ctx context.Context) (map[uint64]bool, error) {
	st := &v.out.r.Index
	st.DiskBytes = treeBytes(v.s.fs, indexDir)
	st.Applied = uint64(v.rec.applied)
	var checked *index.Checked
	if v.s.idx != nil && v.indexErr == nil {
		var err error
		checked, err = v.s.idx.Check(ctx, v.s.tenantOf)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			v.indexErr = err
			v.rec.lose(err.Error())
		}
	}
	v.indexState(st)
	if v.indexErr != nil {
		return nil, nil
	}
	st.Keys, st.Aliases, st.References, st.Contents = checked.Keys, checked.Aliases, checked.Refs, checked.Contents
	for _, p := range checked.Problems {
		d := Damage{Kind: DamageIndex, File: indexDir, Offset: -1, Segment: p.Segment, Reason: p.Reason}
		if p.Key.Hash != "" {
			d.Namespace, d.Hash = p.Key.Namespace, fmt.Sprintf("%x", p.Key.Hash)
		}
		v.out.add(d)
	}
	if more := checked.ProblemCount - int64(len(checked.Problems)); more > 0 {
		v.out.note("%d more records of the index disagree", more)
	}
	return checked.Segments, nil
}

// indexState tells a damaged index from an absent one.
func (v *verifier) indexState(st *IndexState) {
	st.Rebuild = v.rec.lost
	switch {
	case errors.Is(deviceError(v.indexErr), ErrDevice):
		v.out.add(Damage{Kind: DamageUnreadable, File: indexFileOf(v.indexErr), Offset: -1, Reason: v.indexErr.Error()})
	case v.indexErr != nil && !v.indexAbsent:
		v.out.add(Damage{Kind: DamageIndex, File: indexFileOf(v.indexErr), Offset: -1, Reason: v.indexErr.Error() + v.markText()})
	case v.indexAbsent && len(v.s.segs) == 0 && len(v.rec.log.Files) == 0:
		st.Rebuild = "" // a store that was only just made
	case v.indexAbsent:
		v.out.note("the index is missing or incomplete and will be rebuilt by the next open")
	}
	if v.rec.lost != "" && len(v.s.segs) > 0 {
		v.out.note("blocks were taken from footers and headers, as a rebuild of the index would: %s", v.rec.lost)
	}
}

// markText is what the mark says that the index leaves when it meets damage.
func (v *verifier) markText() string {
	const name, most = indexDir + "/" + index.DamageMark, 400
	i, err := v.s.fs.Stat(name)
	if err != nil || i.SizeBytes == 0 {
		return ""
	}
	f, err := v.s.fs.Open(name, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	p := make([]byte, min(most, i.SizeBytes))
	if err := readFullAt(f, p, 0); err != nil {
		return ""
	}
	return fmt.Sprintf(": %q", strings.TrimSpace(string(p)))
}

// indexFileOf finds the file that an error of the index is about, if it says.
func indexFileOf(err error) string {
	for _, word := range strings.FieldsFunc(err.Error(), func(r rune) bool { return r == ' ' || r == ':' || r == ',' || r == '"' }) {
		base := path.Base(word)
		if ext := path.Ext(base); ext == ".sst" || base == index.DamageMark || strings.HasPrefix(base, "MANIFEST-") || strings.HasPrefix(base, "OPTIONS-") {
			return indexDir + "/" + base
		}
	}
	return indexDir
}

// missing reports the blocks of segments whose file is gone.
func (v *verifier) missing(ctx context.Context, list []disk.SegmentInfo, referred map[uint64]bool) error {
	if v.rec.lost != "" {
		return nil
	}
	for segment := range v.changes.segments {
		referred[segment] = true
	}
	for _, i := range list {
		delete(referred, i.ID)
	}
	for segment := range referred {
		want, err := v.expectations(ctx, segment, nil)
		if err != nil {
			return err
		}
		for _, x := range want {
			d := x.damage(DamageBlock, segment)
			if len(x.blocks) == 0 {
				d.Kind = DamageAlias
			}
			d.Offset, d.Reason = int64(x.page)*disk.PageBytes, "the segment's file is missing"
			v.out.add(d)
			v.verdicts(x, segment, VerdictMissing, nil)
		}
	}
	return nil
}

// strange counts what is not the store's.
func (v *verifier) strange() {
	var names []string
	if all, err := v.s.fs.List("."); err == nil {
		for _, n := range all {
			if !isOurs(n) {
				names = append(names, n)
			}
		}
	}
	names = append(append(names, v.s.vol.Strange()...), v.rec.log.Strange...)
	if len(names) > 0 {
		v.out.note("%d names are not the store's, and were left alone: %s", len(names), strings.Join(names[:min(len(names), 5)], ", "))
	}
	held, err := v.s.fs.List(quarantineDir)
	if err != nil && !vfs.IsNotExist(err) {
		v.out.err(DamageUnreadable, quarantineDir, 0, err)
	}
	if len(held) > 0 {
		v.out.note("%d blocks found bad earlier are kept in %s/", len(held), quarantineDir)
	}
}
