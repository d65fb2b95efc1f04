package disk

// readsPerWrite is how many reads overtake a write that waits: somebody waits
// for a read, and writes have a buffer behind them; but they must get on.
const readsPerWrite = 8

// lanes are the requests that wait, reads before writes. It has no lock of its
// own.
type lanes struct {
	reads, writes fifo
	overtaken     int // reads taken in a row while a write waited
}

func (l *lanes) len() int { return l.reads.len() + l.writes.len() }

func (l *lanes) push(r *request) {
	if r.b.write {
		l.writes.push(r)
	} else {
		l.reads.push(r)
	}
}

// next is the lane that pop takes from.
func (l *lanes) next() *fifo {
	if l.writes.len() > 0 && (l.reads.len() == 0 || l.overtaken >= readsPerWrite) {
		return &l.writes
	}
	return &l.reads
}

// peek is what pop would take, which must be there.
func (l *lanes) peek() *request { return l.next().peek() }

func (l *lanes) pop() *request {
	lane := l.next()
	if lane == &l.writes || l.writes.len() == 0 {
		l.overtaken = 0
	} else {
		l.overtaken++
	}
	return lane.pop()
}

// dropAbandoned takes out what was given up before it was begun.
func (l *lanes) dropAbandoned() {
	l.reads.dropAbandoned()
	l.writes.dropAbandoned()
}

// fifo is a queue whose memory is used again.
type fifo struct {
	all  []*request
	head int // what lies before was taken
}

func (q *fifo) len() int { return len(q.all) - q.head }

func (q *fifo) push(r *request) {
	if len(q.all) == cap(q.all) && q.head > len(q.all)/2 {
		n := copy(q.all, q.all[q.head:])
		clear(q.all[n:])
		q.all, q.head = q.all[:n], 0
	}
	q.all = append(q.all, r)
}

func (q *fifo) peek() *request { return q.all[q.head] }

func (q *fifo) pop() *request {
	r := q.all[q.head]
	q.all[q.head] = nil
	if q.head++; q.head == len(q.all) {
		q.all, q.head = q.all[:0], 0
	}
	return r
}

func (q *fifo) dropAbandoned() {
	kept := q.all[:0]
	for _, r := range q.all[q.head:] {
		if r.started || r.state.Load() == stateQueued {
			kept = append(kept, r)
		}
	}
	clear(q.all[len(kept):])
	q.all, q.head = kept, 0
}
