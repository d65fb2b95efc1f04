package index

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// filterPolicy is Pebble's bloom filter, without the references: those are
// only ever listed, never asked for one by one, so a filter could answer
// nothing about them. On disk it is the same filter.
type filterPolicy struct{ pebble.FilterPolicy }

func newFilterPolicy() pebble.FilterPolicy {
	return filterPolicy{bloom.FilterPolicy(bloomBitsPerKey)}
}

func (p filterPolicy) NewWriter(t pebble.FilterType) pebble.FilterWriter {
	return filterWriter{p.FilterPolicy.NewWriter(t)}
}

type filterWriter struct{ pebble.FilterWriter }

func (w filterWriter) AddKey(key []byte) {
	if len(key) == 0 || key[0] != kindRef {
		w.FilterWriter.AddKey(key)
	}
}
