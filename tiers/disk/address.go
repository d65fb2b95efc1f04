package disk

import "fmt"

// PageBytes is the unit of place and alignment in a segment file.
const PageBytes = 4096

// Address is the place of an extent: a segment and the page where its header
// begins. Page 0 of a segment is its own header, so the zero Address is no
// extent's.
type Address struct {
	Segment uint64
	Page    uint32
}

// Less orders addresses by age: segment ids grow and pages are appended.
func (a Address) Less(b Address) bool {
	if a.Segment != b.Segment {
		return a.Segment < b.Segment
	}
	return a.Page < b.Page
}

// IsZero reports whether a is the zero Address.
func (a Address) IsZero() bool { return a == Address{} }

// Offset returns the byte offset of the page in the segment file.
func (a Address) Offset() int64 { return int64(a.Page) * PageBytes }

// String returns the address as people read it: "seg 00000012 page 34", the
// segment in hexadecimal as in its file's name.
func (a Address) String() string { return fmt.Sprintf("seg %08x page %d", a.Segment, a.Page) }

// pages returns how many pages n bytes take; n is not negative.
func pages(n int64) int64 { return (n + PageBytes - 1) / PageBytes }
