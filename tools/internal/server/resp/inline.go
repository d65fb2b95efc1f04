package resp

// inline reads a command typed as a line: words between blanks, in quotes
// where they contain some, as redis-cli and telnet users write them.
func (r *Reader) inline() error {
	line, err := r.line()
	if err != nil {
		return err
	}
	for {
		line = skipBlanks(line)
		if len(line) == 0 {
			return nil
		}
		if len(r.cmd.Args) >= r.limits.ArgsMax {
			return malformed("too many words in a line")
		}
		from := len(r.arena)
		rest, ok := r.word(line)
		if !ok {
			return malformed("unbalanced quotes in request")
		}
		r.cmd.Args = append(r.cmd.Args, r.arena[from:len(r.arena):len(r.arena)])
		line = rest
	}
}

// word appends the first word of a line to the arena.
func (r *Reader) word(line []byte) (rest []byte, ok bool) {
	for len(line) > 0 && !blank(line[0]) {
		switch c := line[0]; c {
		case '"', '\'':
			if line, ok = r.quoted(line[1:], c); !ok {
				return nil, false
			}
			if len(line) > 0 && !blank(line[0]) {
				return nil, false
			}
		default:
			r.arena = append(r.arena, c)
			line = line[1:]
		}
	}
	return line, true
}

// quoted appends what stands up to the closing quote.
func (r *Reader) quoted(line []byte, quote byte) (rest []byte, ok bool) {
	for len(line) > 0 {
		c := line[0]
		switch {
		case c == quote:
			return line[1:], true
		case c == '\\' && len(line) > 1:
			var b byte
			b, line = escaped(line, quote)
			r.arena = append(r.arena, b)
		default:
			r.arena = append(r.arena, c)
			line = line[1:]
		}
	}
	return nil, false
}

// escaped reads a byte written with a backslash. In single quotes only the
// quote itself is.
func escaped(line []byte, quote byte) (b byte, rest []byte) {
	c := line[1]
	if quote == '\'' {
		if c == quote {
			return c, line[2:]
		}
		return '\\', line[1:]
	}
	if c == 'x' && len(line) >= 4 {
		if hi, lo := hexDigit(line[2]), hexDigit(line[3]); hi >= 0 && lo >= 0 {
			return byte(hi<<4 | lo), line[4:]
		}
	}
	switch c {
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'b':
		c = '\b'
	case 'a':
		c = '\a'
	}
	return c, line[2:]
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == 0 }

func skipBlanks(p []byte) []byte {
	for len(p) > 0 && blank(p[0]) {
		p = p[1:]
	}
	return p
}
