//go:build !canary

package engine

// The canary build breaks one law on purpose, so that the tests can show that
// they would notice; see canary_on.go. Here all laws hold.
const (
	canaryLaw1      = false
	canaryLaw2      = false
	canaryLaw3Sync  = false
	canaryLaw3Epoch = false
	canaryLaw4      = false
	canaryLaw5      = false
	canaryLaw6      = false
	canaryLaw2GPU   = false
)
