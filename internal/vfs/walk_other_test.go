//go:build !linux

package vfs

import "testing"

func newWalkingOS(t *testing.T) *OS { return newOS(t) }
