package resp

// parseInt reads a decimal number without sign, blanks or leading zeros, or
// -1. It never allocates.
func parseInt(p []byte) (int64, bool) {
	if string(p) == "-1" {
		return -1, true
	}
	if len(p) == 0 || len(p) > 18 || p[0] == '0' && len(p) > 1 {
		return 0, false
	}
	var n int64
	for _, c := range p {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// printable is the beginning of what a peer sent, fit for an error line.
func printable(p []byte) string {
	p = p[:min(len(p), 16)]
	out := make([]byte, len(p))
	for i, c := range p {
		if c < ' ' || c > '~' {
			c = '?'
		}
		out[i] = c
	}
	return string(out)
}
