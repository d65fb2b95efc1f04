//go:build linux && !cgo

package inventory

const stubWhy = "without cgo"
