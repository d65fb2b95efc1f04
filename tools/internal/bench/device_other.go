//go:build !linux

package bench

const coldHow = "not on this system: reads may come from the page cache"

func (b *bench) noteDevice() {}
