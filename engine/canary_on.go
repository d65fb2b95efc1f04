//go:build canary

package engine

import "os"

// SEALSTONE_CANARY chooses the law to break:
//
//	law1  sums are not compared: unverified bytes are served
//	law2  what was read straight into the caller's memory and did not verify,
//	      or was not read whole, stays there
//	law3  the log is synced and acknowledged without its segments, and a put
//	      is acknowledged under an epoch floor that rose meanwhile
//	law4  the capacity is not looked at
//	law5  a failed write or sync changes nothing about the store's health
//	law2GPU  a copy from or to a GPU that failed is counted as done
//	law6  a path that was refused is used when it is asked for, and one that
//	      returned wrong bytes is used on
//
// Package index knows law5 and package disk law6 as well.
var (
	broken = os.Getenv("SEALSTONE_CANARY")

	canaryLaw1      = broken == "law1"
	canaryLaw2      = broken == "law2"
	canaryLaw3Sync  = broken == "law3"
	canaryLaw3Epoch = broken == "law3"
	canaryLaw4      = broken == "law4"
	canaryLaw5      = broken == "law5"
	canaryLaw6      = broken == "law6"
	canaryLaw2GPU   = broken == "law2GPU"
)
