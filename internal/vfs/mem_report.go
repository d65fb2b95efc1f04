package vfs

import "fmt"

// CrashReport counts what became of the changes that no sync had covered when
// a Mem crashed.
type CrashReport struct {
	// Writes that survived whole, were lost whole, or lost some of their
	// sectors: of 4096 bytes, or smaller ones (512 in the tests).
	WritesKept, WritesLost, Torn512, Torn4096 int
	// Changes of a file's size, preallocations among them.
	SizesKept, SizesLost int
	// Changes of names: new entries of files and of directories, renames,
	// removals.
	FilesKept, FilesLost       int
	DirsKept, DirsLost         int
	RenamesKept, RenamesLost   int
	RemovalsKept, RemovalsLost int
	// Reordered counts changes that survived although an older one, of any
	// file or directory, did not.
	Reordered int
}

// Add adds the counts of another crash.
func (r *CrashReport) Add(o CrashReport) {
	have := r.fields()
	for i, f := range o.fields() {
		*have[i].n += *f.n
	}
}

// Total is the number of changes that the crash decided on.
func (r CrashReport) Total() (n int) {
	for _, f := range r.fields() {
		if f.n != &r.Reordered {
			n += *f.n
		}
	}
	return n
}

// Missing names the kinds of which the counts have none.
func (r CrashReport) Missing() (kinds []string) {
	for _, f := range r.fields() {
		if *f.n == 0 {
			kinds = append(kinds, f.kind)
		}
	}
	return kinds
}

func (r CrashReport) String() (out string) {
	for _, f := range r.fields() {
		if *f.n > 0 {
			out += fmt.Sprintf(", %d %s", *f.n, f.kind)
		}
	}
	if out == "" {
		return "nothing was unsynced"
	}
	return out[len(", "):]
}

type reportField struct {
	kind string
	n    *int
}

func (r *CrashReport) fields() []reportField {
	return []reportField{
		{"writes kept", &r.WritesKept}, {"writes lost", &r.WritesLost},
		{"writes torn at 512", &r.Torn512}, {"writes torn at 4096", &r.Torn4096},
		{"sizes kept", &r.SizesKept}, {"sizes lost", &r.SizesLost},
		{"new files kept", &r.FilesKept}, {"new files lost", &r.FilesLost},
		{"new directories kept", &r.DirsKept}, {"new directories lost", &r.DirsLost},
		{"renames kept", &r.RenamesKept}, {"renames lost", &r.RenamesLost},
		{"removals kept", &r.RemovalsKept}, {"removals lost", &r.RemovalsLost},
		{"reordered", &r.Reordered},
	}
}

// file counts a change of a file that survived, or was lost, whole.
func (r *CrashReport) file(op *fileOp, kept bool) {
	if op.kind == fileWrite {
		count(kept, &r.WritesKept, &r.WritesLost)
		return
	}
	count(kept, &r.SizesKept, &r.SizesLost)
}

func (r *CrashReport) torn(sectorBytes int) {
	count(sectorBytes < pageBytes, &r.Torn512, &r.Torn4096)
}

// name counts a change of names.
func (r *CrashReport) name(op nameOp, kept bool) {
	first := op.sets[0]
	switch {
	case len(op.sets) == 2:
		count(kept, &r.RenamesKept, &r.RenamesLost)
	case first.node == nil:
		count(kept, &r.RemovalsKept, &r.RemovalsLost)
	case first.node.isDir:
		count(kept, &r.DirsKept, &r.DirsLost)
	default:
		count(kept, &r.FilesKept, &r.FilesLost)
	}
}

func count(yes bool, ifSo, ifNot *int) {
	if yes {
		*ifSo++
	} else {
		*ifNot++
	}
}

// fate is whether the change with a serial number survived.
type fate struct {
	serial uint64
	kept   bool
}

// reordered counts the changes that survived an older one.
func (c *cloner) reordered() (n int) {
	oldest := uint64(0) // of those that were lost
	for _, f := range c.fates {
		if !f.kept && (oldest == 0 || f.serial < oldest) {
			oldest = f.serial
		}
	}
	for _, f := range c.fates {
		if f.kept && oldest != 0 && f.serial > oldest {
			n++
		}
	}
	return n
}
