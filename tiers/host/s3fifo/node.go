package s3fifo

// Node is an item in a policy. Value, ID and SizeBytes are set by the owner
// and stay while the node is in.
type Node[T any] struct {
	Value     T
	ID        uint64 // a fingerprint: equal items have equal ones
	SizeBytes int64

	in         *queue[T] // nil: in none
	prev, next *Node[T]
	uses       uint8 // since it entered its queue, at most usesMax
}

// queue is a list of nodes, the oldest first.
type queue[T any] struct {
	oldest, newest *Node[T]
	bytes          int64
	count          int
}

func (q *queue[T]) push(n *Node[T]) {
	n.in, n.prev, n.next = q, q.newest, nil
	if q.newest == nil {
		q.oldest = n
	} else {
		q.newest.next = n
	}
	q.newest = n
	q.bytes += n.SizeBytes
	q.count++
}

func (q *queue[T]) remove(n *Node[T]) {
	if n.prev == nil {
		q.oldest = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		q.newest = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.in, n.prev, n.next = nil, nil, nil
	q.bytes -= n.SizeBytes
	q.count--
}
