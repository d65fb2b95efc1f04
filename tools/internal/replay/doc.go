// Package replay drives a store with a recorded workload and checks what it
// answers.
//
// For each request it asks for the longest stored prefix of the request's
// blocks, reads those blocks and compares every byte with what blockgen says
// the block consists of, and puts the rest, as an inference engine would
// after computing them. The comparison owes nothing to the store's own sums.
//
// With [Config.KillAfter] the store runs in a child process that is killed in
// the middle of a put. The parent keeps the list of what the store
// acknowledged, opens the store again, checks all of it, and goes on.
package replay
