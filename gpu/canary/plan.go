package canary

import "slices"

// pageBytes is the alignment of direct reads into a GPU: nvidia-fs refuses
// file offsets, lengths and device addresses that are no multiples of 4096
// bytes (nvfs-core.c of gds-nvidia-fs), and libcufile sends such parts through
// host memory instead.
const pageBytes = 4096

// fileTailBytes is what the file holds beyond the largest read, so that this
// read too can begin elsewhere than at its start.
const fileTailBytes = 1 << 20

// transfer is one read of a canary: Length bytes at FileOffset of the file, to
// SlotOffset of the slot.
type transfer struct {
	FileOffset, SlotOffset, Length int64
}

// plan lists the reads of one round, small to large. No two reads have the
// same difference between file and slot offset, so that a path that drops or
// mixes up an offset cannot be right by chance.
func plan(ioBytesMax int64) []transfer {
	const kib, mib = 1 << 10, 1 << 20
	all := []transfer{
		{0, 0, 4 * kib},
		{20 * kib, 4 * kib, 4 * kib},
		{68 * kib, 0, 64 * kib},
		{4 * kib, 128 * kib, 256 * kib},
		{mib, 64 * kib, mib},
		{8 * kib, 0, 4 * mib},
	}
	// The largest: whole and at the end of the file, so that its last bytes
	// are the file's.
	largest := transfer{fileTailBytes, 0, ioBytesMax}
	all = slices.DeleteFunc(all, func(t transfer) bool {
		return t.SlotOffset+t.Length > ioBytesMax || t.Length == ioBytesMax
	})
	return append(all, largest)
}

// fileBytes is the size of the file that a plan reads.
func fileBytes(ioBytesMax int64) int64 { return ioBytesMax + fileTailBytes }
