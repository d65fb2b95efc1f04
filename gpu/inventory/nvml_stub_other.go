//go:build !linux

package inventory

const stubWhy = "for another system than Linux"
