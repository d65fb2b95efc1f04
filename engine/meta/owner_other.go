//go:build !linux

package meta

// processFacts: other systems have no such files; host and pid must do.
func processFacts() (pidNamespace, startTicks uint64, bootID string) { return 0, 0, "" }
