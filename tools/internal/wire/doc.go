// Package wire is what both ends of the KV.* commands must write alike: status
// words, seals and lists of spans. The page is docs/server/protocol.md.
package wire
