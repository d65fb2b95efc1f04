//go:build canary

package canary

import "os"

// canaryLaw6: the trial moves bytes and does not look at them.
var canaryLaw6 = os.Getenv("SEALSTONE_CANARY") == "law6"
