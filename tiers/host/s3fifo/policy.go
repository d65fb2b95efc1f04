package s3fifo

const (
	// smallShare is the part of the capacity that new items pass through: one
	// of smallShare parts. The paper's tenth suits traffic of single objects; a
	// prefix is asked for again soon or never, and a quarter hits more of the
	// traces in docs/benchmarks.md.
	smallShare = 4
	// promoteUses in the small queue bring an item into the main one.
	promoteUses = 1
	// usesMax bounds how many rounds of the main queue past uses are worth.
	usesMax = 3
)

// Policy orders items for eviction. It holds no more than it is told to: its
// owner evicts until there is room. It is not safe for concurrent use.
type Policy[T any] struct {
	capacityBytes int64
	small, main   queue[T]
	ghosts        *ghosts
}

// New makes a policy for a cache of some capacity.
func New[T any](capacityBytes int64) *Policy[T] {
	return &Policy[T]{capacityBytes: capacityBytes, ghosts: newGhosts(capacityBytes - capacityBytes/smallShare)}
}

// Add takes a node in that is in no policy.
func (p *Policy[T]) Add(n *Node[T]) {
	n.uses = 0
	if p.ghosts.take(n.ID) {
		p.main.push(n)
		return
	}
	p.small.push(n)
}

// Use notes that an item was asked for.
func (p *Policy[T]) Use(n *Node[T]) { n.uses = min(n.uses+1, usesMax) }

// Remove takes a node out, which then is not remembered.
func (p *Policy[T]) Remove(n *Node[T]) {
	if n.in != nil {
		n.in.remove(n)
	}
}

// Evict takes out the item that is the next to go, or returns nil: there is
// none, or all are held. Items for which held is true are passed over as if
// they were used.
func (p *Policy[T]) Evict(held func(T) bool) *Node[T] {
	// Each turn moves a node from the small queue to the main one, or takes a
	// use from it, or passes one that is held.
	passed := 0
	for passed <= p.main.count {
		q := p.next(passed)
		n := q.oldest
		if n == nil {
			return nil
		}
		q.remove(n)
		switch {
		case held(n.Value):
			passed++
			p.main.push(n)
		case q == &p.small && n.uses >= promoteUses:
			n.uses = 0
			p.main.push(n)
		case q == &p.main && n.uses > 0:
			n.uses--
			p.main.push(n)
		default:
			if q == &p.small {
				p.ghosts.add(n.ID, n.SizeBytes)
			}
			return n
		}
	}
	return nil
}

// next is the queue to take from: the small one while it has more than its
// share, or where the main one has nothing that may go.
func (p *Policy[T]) next(passed int) *queue[T] {
	if p.small.count > 0 && (p.small.bytes > p.capacityBytes/smallShare || passed >= p.main.count) {
		return &p.small
	}
	return &p.main
}

// Len is how many items are in.
func (p *Policy[T]) Len() int { return p.small.count + p.main.count }

// Bytes is the size of the items in.
func (p *Policy[T]) Bytes() int64 { return p.small.bytes + p.main.bytes }

// OverheadBytes is about what remembering past items costs.
func (p *Policy[T]) OverheadBytes() int64 { return int64(len(p.ghosts.at)) * ghostBytes }
