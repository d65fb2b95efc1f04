// Package check looks at a machine with a GPU once, from its libraries up to a
// store that reads into device memory, and reports what works, how fast, and
// what could not be tried and why.
//
// It is made for the first minutes on hardware that nobody has seen: every step
// is bounded in time and runs whatever happened to the others, except where a
// call into the driver did not return. Only wrong bytes and broken promises
// make it fail; what is missing is "not available", with the reason.
package check
