//go:build canary

package e

import "os"

func broken(law string) bool { return os.Getenv("SEALSTONE_CANARY") == law }
