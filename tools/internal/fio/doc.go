// Package fio runs fio, the I/O tester, and reads its JSON report. It is the
// yardstick that a store's speed is held to: what the device gives to a
// program that does nothing but read or write.
//
// Options and output are those of fio 3; see fio(1), "JSON output".
package fio
