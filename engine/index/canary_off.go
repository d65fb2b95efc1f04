//go:build !canary

package index

// The canary build breaks a law on purpose; see canary_on.go. Here all hold.
const canaryLaw5 = false

func canaryExit() {}
