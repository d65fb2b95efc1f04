package wal

// Sync makes durable what was appended before the call and returns the LSN up
// to which the log is durable now. Appends go on meanwhile. One sync runs at a
// time; callers that waited find their groups covered by the one before and
// return without another. A failed sync poisons the log.
func (l *Log) Sync() (LSN, error) {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	end, synced, err := l.end, l.synced, l.usableLocked()
	l.mu.Unlock()
	if err != nil {
		return synced, err
	}
	if end == synced {
		return synced, nil
	}
	if err := l.cur.f.Datasync(); err != nil {
		return synced, l.poison("sync", l.cur.path, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syncs++
	if l.failure != nil { // an append failed meanwhile
		return l.synced, l.failure
	}
	l.synced = end // files before the current one were synced when they were left
	return end, nil
}
