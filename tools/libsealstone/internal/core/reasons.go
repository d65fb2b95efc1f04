package core

// reasonsKept is how many reasons of drained items are kept, and
// reasonTextMax how long each may be.
const (
	reasonsKept   = 1024
	reasonTextMax = 512
)

// reasonRing keeps the latest reasons. The host reads them when it wonders, so
// looking through all of them is fast enough.
type reasonRing struct {
	ring []reason
	next int
}

func (r *reasonRing) add(v reason) {
	if len(v.text) > reasonTextMax {
		v.text = v.text[:reasonTextMax]
	}
	if len(r.ring) < reasonsKept {
		r.ring = append(r.ring, v)
		return
	}
	r.ring[r.next] = v
	r.next = (r.next + 1) % reasonsKept
}

func (r *reasonRing) find(op uint64, item uint32) (string, bool) {
	for i := range r.ring {
		if v := &r.ring[i]; v.op == op && v.item == item {
			return v.text, true
		}
	}
	return "", false
}
