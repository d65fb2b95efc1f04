package vfs

import "testing"

// newWalkingOS is the tree as on a kernel without openat2.
func newWalkingOS(t *testing.T) *OS {
	o := newOS(t)
	o.beneath = false
	return o
}
