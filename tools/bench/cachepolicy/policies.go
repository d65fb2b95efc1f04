package main

import (
	"container/list"

	"github.com/maypok86/otter/v2"

	"github.com/sealstone/sealstone/tiers/host/s3fifo"
)

// key is a block of a trace.
type key struct {
	scope string
	id    uint64
}

// access is one reference of a trace.
type access struct {
	key
	sizeBytes   int64
	fingerprint uint64
	scan        bool // of a block that never comes back
}

// policy is a cache of keys: it answers whether a key is there, and takes it
// in if not.
type policy interface {
	access(a *access) (hit bool)
}

// policies make a cache of a capacity.
var policies = []struct {
	name string
	make func(capacityBytes int64) policy
}{
	{"S3-FIFO", newS3FIFO},
	{"W-TinyLFU (otter)", newOtter},
	{"LRU", newLRU},
}

type s3 struct {
	capacityBytes int64
	p             *s3fifo.Policy[key]
	nodes         map[key]*s3fifo.Node[key]
}

func newS3FIFO(capacityBytes int64) policy {
	return &s3{capacityBytes, s3fifo.New[key](capacityBytes), map[key]*s3fifo.Node[key]{}}
}

func (c *s3) access(a *access) bool {
	if n := c.nodes[a.key]; n != nil {
		c.p.Use(n)
		return true
	}
	if a.sizeBytes > c.capacityBytes {
		return false
	}
	for c.p.Bytes()+a.sizeBytes > c.capacityBytes {
		delete(c.nodes, c.p.Evict(func(key) bool { return false }).Value)
	}
	n := &s3fifo.Node[key]{Value: a.key, ID: a.fingerprint, SizeBytes: a.sizeBytes}
	c.nodes[a.key] = n
	c.p.Add(n)
	return false
}

// tinyLFU is otter, told to do its upkeep before each answer: by itself it
// does so a little later, on goroutines.
type tinyLFU struct{ c *otter.Cache[key, int64] }

func newOtter(capacityBytes int64) policy {
	return tinyLFU{otter.Must(&otter.Options[key, int64]{
		MaximumWeight: uint64(capacityBytes >> weightShift),
		Weigher:       func(_ key, sizeBytes int64) uint32 { return uint32(sizeBytes >> weightShift) },
		Executor:      func(fn func()) { fn() },
	})}
}

// weightShift makes pages of bytes: weights of otter are of 32 bits.
const weightShift = 12

func (c tinyLFU) access(a *access) bool {
	if _, ok := c.c.GetIfPresent(a.key); ok {
		return true
	}
	c.c.Set(a.key, a.sizeBytes)
	c.c.CleanUp()
	return false
}

type lru struct {
	capacityBytes, bytes int64
	order                list.List // of *access, the latest first
	at                   map[key]*list.Element
}

func newLRU(capacityBytes int64) policy {
	return &lru{capacityBytes: capacityBytes, at: map[key]*list.Element{}}
}

func (c *lru) access(a *access) bool {
	if e := c.at[a.key]; e != nil {
		c.order.MoveToFront(e)
		return true
	}
	if a.sizeBytes > c.capacityBytes {
		return false
	}
	for c.bytes+a.sizeBytes > c.capacityBytes {
		old := c.order.Remove(c.order.Back()).(*access)
		delete(c.at, old.key)
		c.bytes -= old.sizeBytes
	}
	c.at[a.key] = c.order.PushFront(a)
	c.bytes += a.sizeBytes
	return false
}
