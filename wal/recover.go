package wal

import "fmt"

// Record is one record of the log.
type Record struct {
	LSN LSN // of its frame
	End LSN // end of its group: the log must be durable up to here for it
	// Data is the payload, valid until the callback returns.
	Data []byte
}

// Recovered is what Recover found.
type Recovered struct {
	// First is the base of the oldest file: records below it were trimmed
	// (or lost: First above what the caller has applied is a gap).
	First LSN
	// End is where the readable log ends; zero without any file.
	End LSN
	// Synced is the position up to which the log is proven durable, Mark
	// the largest mark found; both zero without any file.
	Synced, Mark LSN
	// Torn is the newest torn tail, preferring one that dropped bytes; nil
	// if there is none. Files has all of them.
	Torn *Torn
	// Files are all log files, oldest first; Strange the paths of other
	// names in the directory.
	Files   []FileInfo
	Strange []string
	// Corrupt is set when recovery stopped at rot: what follows is lost.
	Corrupt *CorruptionError
	// ReadOnly is set (an *UnsupportedError) when a file may be read but
	// not written by this version; Create then fails with it.
	ReadOnly error
}

// Recover reads all log files of the directory, changing nothing, and calls
// fn (which may be nil) in order with each record of a whole group whose LSN is
// at least from.
//
// With rot it stops: the records before it were delivered and
// Recovered.Corrupt is set. Rot in a file that lies below from altogether
// stands only in Files. A crash's torn tail is normal; see Recovered.Torn.
// Errors are those of fn (as they are), of I/O, and ErrUnsupported; the
// Recovered then holds what was found until there.
func Recover(o Options, from LSN, fn func(Record) error) (*Recovered, error) {
	return recoverDir(&o, from, visitor{group: func(g *group) error {
		if fn == nil || g.end <= from {
			return nil
		}
		return g.each(func(r Record) error {
			if r.LSN < from {
				return nil
			}
			return fn(r)
		})
	}})
}

// visitor sees what recovery goes through, in order. file may be nil.
type visitor struct {
	file  func(*logFile) // each with a sound header, before its groups
	group func(*group) error
}

// recoverDir examines the files of the directory one after the other.
func recoverDir(o *Options, from LSN, visit visitor) (*Recovered, error) {
	r := &Recovered{}
	if err := o.check(); err != nil {
		return r, err
	}
	bases, strange, err := listBases(o)
	if err != nil {
		return r, err
	}
	r.Strange = strange
	files, err := readHeaders(o, bases)
	if err != nil {
		return r, err
	}
	for i := range files {
		f := &files[i]
		if r.ReadOnly == nil && f.problem == "" {
			r.ReadOnly = f.h.unknownROCompat(f.path)
		}
		if r.Corrupt != nil {
			r.Files = append(r.Files, f.info())
			continue
		}
		s, err := examine(o, files, i, visit)
		if err != nil {
			return r, err
		}
		below := i+1 < len(files) && files[i+1].base <= from
		r.add(f, s, below)
	}
	return r, nil
}

// add takes over what was found in one file. below: the caller needs nothing
// of it.
func (r *Recovered) add(f *logFile, s scanned, below bool) {
	if len(r.Files) == 0 {
		r.First = f.base
	}
	info := f.info()
	info.End, info.Groups, info.Records = s.end, s.groups, s.records
	info.Torn, info.Corrupt, info.Examined = s.torn, s.corrupt, true
	r.Files = append(r.Files, info)
	if f.problem == "" || r.End == 0 {
		r.End = s.end
	}
	r.Synced, r.Mark = max(r.Synced, s.synced), max(r.Mark, s.mark)
	if s.torn != nil && (r.Torn == nil || s.torn.DroppedBytes > 0 || r.Torn.DroppedBytes == 0) {
		r.Torn = s.torn
	}
	if !below {
		r.Corrupt = s.corrupt
	}
}

func (f *logFile) info() FileInfo {
	return FileInfo{
		Name: f.path, Base: f.base, End: f.base, SizeBytes: f.sizeBytes,
		Starts: f.problem == "" && f.h.prevBase == 0,
	}
}

// examine reads and scans the i-th file.
func examine(o *Options, files []logFile, i int, visit visitor) (scanned, error) {
	f := &files[i]
	next := continuation(files, i)
	if f.problem != "" {
		return examineHeaderless(o, f, next)
	}
	if i > 0 && f.h.prevBase != 0 && f.h.prevBase != files[i-1].base {
		reason := fmt.Sprintf("the file that it continues, %s, is missing", fileName(f.h.prevBase))
		return scanned{end: f.base, corrupt: &CorruptionError{File: f.path, LSN: f.base, Reason: reason}}, nil
	}
	data, size, err := readFile(o.FS, f.path, f.h.segmentBytes)
	if err != nil {
		return scanned{}, err
	}
	m := image{file: f.path, h: f.h, data: data, sizeBytes: size, next: next}
	if visit.file != nil {
		visit.file(f)
	}
	s, err := m.scan(visit.group)
	if i+1 < len(files) && files[i+1].problem == "" && s.end > files[i+1].base {
		s.corrupt = m.corruption(len(data), s.end, fmt.Sprintf("log reaches into the next file, which starts at LSN %d", uint64(files[i+1].base)))
	}
	return s, err
}

// continuation is the header of the file after the i-th, if that continues it.
func continuation(files []logFile, i int) *header {
	if i+1 == len(files) || files[i+1].problem != "" || files[i+1].h.prevBase != files[i].base {
		return nil
	}
	return &files[i+1].h
}

// examineHeaderless judges a file without a sound header. The header is
// durable before the first frame is written: with nothing behind it a crash
// cut the creation off, else the header has rotted.
func examineHeaderless(o *Options, f *logFile, next *header) (scanned, error) {
	data, size, err := readFile(o.FS, f.path, MaxSegmentBytes)
	if err != nil {
		return scanned{}, err
	}
	s := scanned{end: f.base}
	m := image{file: f.path, data: data, sizeBytes: size}
	if f.foreign || next != nil || lastNonZero(data, min(headerBytes, len(data))) >= 0 {
		s.corrupt = m.corruption(0, f.base, f.problem)
		return s, nil
	}
	s.torn = m.tornAt(0, "creation never completed: "+f.problem)
	return s, nil
}
