//go:build !canary

package canary

// The canary build breaks a law on purpose; see canary_on.go. Here all hold.
const canaryLaw6 = false
