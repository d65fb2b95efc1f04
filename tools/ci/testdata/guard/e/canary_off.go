//go:build !canary

package e

import "os"

// law5 is broken in the build that should know nothing of canaries.
func broken(law string) bool { return law == "law5" && os.Getenv("SEALSTONE_CANARY") == law }
