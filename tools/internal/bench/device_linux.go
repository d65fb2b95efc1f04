package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// coldHow says in the report how reads are made cold.
const coldHow = "the page cache of the store's files is dropped before every round (fdatasync, POSIX_FADV_DONTNEED); fio drops that of its file"

// noteDevice says what an operator must know of the device to read the figures.
func (b *bench) noteDevice() {
	var fs unix.Statfs_t
	if err := unix.Statfs(b.config.Dir, &fs); err == nil && (fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC) {
		b.memory = true
		b.note("the directory is on tmpfs: its files are memory, nothing is cold, and no sync costs anything")
		return
	}
	var st unix.Stat_t
	if err := unix.Stat(b.config.Dir, &st); err != nil {
		return
	}
	link := fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	target, err := os.Readlink(link)
	if err != nil {
		return // no block device of its own: btrfs, overlayfs, a network
	}
	note, memory := deviceNote(filepath.Base(target))
	b.memory = b.memory || memory
	if note != "" {
		b.note(note)
	}
}

// deviceNote is what must be known of a block device of that name.
func deviceNote(name string) (note string, memory bool) {
	switch {
	case strings.HasPrefix(name, "zram"):
		return name + " is compressed memory: figures are those of the processor, not of a device; random bytes do not compress", true
	case strings.HasPrefix(name, "ram"):
		return name + " is memory: figures are those of the processor, not of a device", true
	case strings.HasPrefix(name, "loop"):
		return name + " is a file of another file system, whose cache may hold it: reads may not be cold", false
	}
	return "", false
}
