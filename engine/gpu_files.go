package engine

import (
	"slices"
	"sync"

	"github.com/sealstone/sealstone/gpu"
)

// deviceFiles remembers which segments a direct path may keep open: a file
// that is unlinked takes its space until the last one has closed it. It has an
// entry for each segment and direct path at most.
type deviceFiles struct {
	mu   sync.Mutex
	kept map[uint64][]directFile
}

type directFile struct {
	route directRoute
	id    gpu.FileID
}

// note is called after a read. Of a segment that has gone meanwhile nobody
// would forget the file any more.
func (f *deviceFiles) note(s *Store, segment uint64, route directRoute, id gpu.FileID) {
	file := directFile{route, id}
	f.mu.Lock()
	if f.kept == nil {
		f.kept = map[uint64][]directFile{}
	}
	if !slices.Contains(f.kept[segment], file) {
		f.kept[segment] = append(f.kept[segment], file)
	}
	f.mu.Unlock()
	if !s.hasSegment(segment) {
		f.forget(segment)
	}
}

// forget is called when a segment has been unlinked.
func (f *deviceFiles) forget(segment uint64) {
	f.mu.Lock()
	files := f.kept[segment]
	delete(f.kept, segment)
	f.mu.Unlock()
	for _, file := range files {
		file.route.forget(file.id)
	}
}

// forgetAll is called when the store is closed.
func (f *deviceFiles) forgetAll() {
	f.mu.Lock()
	kept := f.kept
	f.kept = nil
	f.mu.Unlock()
	for _, files := range kept {
		for _, file := range files {
			file.route.forget(file.id)
		}
	}
}

func (s *Store) hasSegment(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.segs[id] != nil
}
