package canary

import "bytes"

// stepBytes is how much of a slice is compared at a time by [bytes.Equal],
// which is many times as fast as a loop.
const stepBytes = 4096

// firstOther is the place of the first byte of b that is not fill, or -1.
func firstOther(b []byte, fill byte) int {
	// A slice of one byte over and over equals itself, moved by one.
	if len(b) == 0 || b[0] == fill && bytes.Equal(b[1:], b[:len(b)-1]) {
		return -1
	}
	for i, c := range b {
		if c != fill {
			return i
		}
	}
	return -1
}

// firstDifference is the place of the first byte in which two slices of one
// length differ, or that length.
func firstDifference(a, b []byte) int {
	for at := 0; at < len(a); at += stepBytes {
		end := min(at+stepBytes, len(a))
		if bytes.Equal(a[at:end], b[at:end]) {
			continue
		}
		for i := at; i < end; i++ {
			if a[i] != b[i] {
				return i
			}
		}
	}
	return len(a)
}

// differences counts the bytes in which two slices of one length differ.
func differences(a, b []byte) (n int) {
	for at := 0; at < len(a); at += stepBytes {
		end := min(at+stepBytes, len(a))
		if bytes.Equal(a[at:end], b[at:end]) {
			continue
		}
		for i := at; i < end; i++ {
			if a[i] != b[i] {
				n++
			}
		}
	}
	return n
}
