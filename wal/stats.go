package wal

// Stats are figures of a Log at one moment.
type Stats struct {
	Files          int   // log files in the directory
	AllocatedBytes int64 // their sizes: no more is held on disk
	End            LSN
	Synced         LSN
	Mark           LSN    // as the next commit frame would carry it
	Appends        uint64 // groups with records
	Syncs          uint64 // fdatasyncs that succeeded
}

// Stats gives the figures; also of a closed or poisoned log.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{
		Files: len(l.files), AllocatedBytes: l.pending,
		End: l.end, Synced: l.synced, Mark: min(l.mark, l.synced),
		Appends: l.appends, Syncs: l.syncs,
	}
	for _, f := range l.files {
		s.AllocatedBytes += f.allocatedBytes
	}
	return s
}
