//go:build canary

package disk

import "os"

// canaryLaw6: the probe moves bytes and does not look at them.
var canaryLaw6 = os.Getenv("SEALSTONE_CANARY") == "law6"
