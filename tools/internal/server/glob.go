package server

// glob matches a pattern as Redis has it: * any bytes, ? one, [a-c] and [^a]
// one of a set, \ the next byte itself. It takes at most the product of both
// lengths, whatever the pattern.
func glob(pattern, s []byte) bool {
	p, at := 0, 0
	star, mark := -1, 0 // where to begin again, with the star taking one more byte
	for at < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, at
			p++
			continue
		}
		if p < len(pattern) {
			if n, ok := globOne(pattern[p:], s[at]); ok {
				p += n
				at++
				continue
			}
		}
		if star < 0 {
			return false
		}
		mark++
		p, at = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// globOne matches one byte with the beginning of a pattern, and tells how much
// of it that was.
func globOne(pattern []byte, b byte) (n int, ok bool) {
	switch {
	case pattern[0] == '?':
		return 1, true
	case pattern[0] == '[':
		return globSet(pattern, b)
	case pattern[0] == '\\' && len(pattern) > 1:
		return 2, pattern[1] == b
	}
	return 1, pattern[0] == b
}

// globSet matches a byte with a set. One that is not closed goes to the end.
func globSet(pattern []byte, b byte) (n int, ok bool) {
	i := 1
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	for i < len(pattern) && pattern[i] != ']' {
		from := pattern[i]
		if from == '\\' && i+1 < len(pattern) {
			i++
			from = pattern[i]
		}
		to := from
		if i+2 < len(pattern) && pattern[i+1] == '-' && pattern[i+2] != ']' {
			to = pattern[i+2]
			i += 2
		}
		ok = ok || min(from, to) <= b && b <= max(from, to)
		i++
	}
	return min(i+1, len(pattern)), ok != not
}
