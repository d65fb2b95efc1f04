//go:build canary

package gpu

import "os"

// SEALSTONE_CANARY chooses the law to break; this package knows one:
//
//	law2  a transfer that failed counts as done
var canaryLaw2 = os.Getenv("SEALSTONE_CANARY") == "law2"
