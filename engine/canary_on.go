//go:build canary

package engine

import "os"

// SEALSTONE_CANARY chooses the law to break:
//
//	law1  sums are not compared: unverified bytes are served
//	law3  the log is synced and acknowledged without its segments, and a put
//	      is acknowledged under an epoch floor that rose meanwhile
var (
	canaryLaw1      = os.Getenv("SEALSTONE_CANARY") == "law1"
	canaryLaw3Sync  = os.Getenv("SEALSTONE_CANARY") == "law3"
	canaryLaw3Epoch = os.Getenv("SEALSTONE_CANARY") == "law3"
)
