//go:build canary

package index

import "os"

// canaryLaw5: Pebble may end the process, as it does by default.
var canaryLaw5 = os.Getenv("SEALSTONE_CANARY") == "law5"

func canaryExit() { os.Exit(1) }
