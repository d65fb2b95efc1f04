package uring

// Operations is the set of operations that a kernel knows.
type Operations struct {
	known [256]bool
}

// Has says whether the kernel knows all of ops.
func (o *Operations) Has(ops ...Op) bool {
	for _, op := range ops {
		if !o.known[op] {
			return false
		}
	}
	return true
}
