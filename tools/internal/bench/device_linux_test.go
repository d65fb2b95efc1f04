package bench

import (
	"strings"
	"testing"
)

func TestDeviceNote(t *testing.T) {
	for _, c := range []struct {
		name, says string
		memory     bool
	}{
		{"zram0", "compressed memory", true}, {"ram3", "is memory", true}, {"loop7", "may not be cold", false},
		{"nvme0n1", "", false}, {"vda", "", false}, {"dm-0", "", false},
	} {
		note, memory := deviceNote(c.name)
		if memory != c.memory || (note == "") != (c.says == "") || !strings.Contains(note, c.says) {
			t.Errorf("%s: %q, memory %v", c.name, note, memory)
		}
	}
}

// TestNoteDeviceOfNothing: a directory that is not there, or on no device of
// its own, has nothing to note.
func TestNoteDeviceOfNothing(t *testing.T) {
	for _, dir := range []string{"/nonexistent", "/proc"} {
		b := &bench{config: Config{Dir: dir}}
		if b.noteDevice(); len(b.notes) != 0 || b.memory {
			t.Errorf("%s: %v", dir, b.notes)
		}
	}
}
