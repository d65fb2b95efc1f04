// Package ctest tests the C library as C programs see it: those in testdata use
// every call, under AddressSanitizer and valgrind, in both modes, in a host that
// forks and one that has signal handlers. The library is the one that make lib
// builds.
package ctest
