//go:build !canary

package gpu

// The canary build breaks one law on purpose, so that the tests can show that
// they would notice; see canary_on.go. Here all laws hold.
const canaryLaw2 = false
