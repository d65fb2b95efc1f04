// Package pagecache makes files cold: what is read from them next comes from
// the device. It does nothing for the caches of devices and hypervisors, nor
// on tmpfs, and nothing at all but on Linux.
package pagecache
