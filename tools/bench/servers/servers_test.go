package main

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// TestWires: answers are read to their end, and what is none is an error.
func TestWires(t *testing.T) {
	for _, c := range []struct {
		wire   wire
		answer string
		value  string
		found  bool
		fails  bool
	}{
		{newRESP(), "$3\r\nabc\r\n", "abc", true, false},
		{newRESP(), "$-1\r\n", "", false, false},
		{newRESP(), "-ERR\r\n", "", false, true},
		{newRESP(), "$9999\r\n", "", false, true},
		{newMemcached(), "VALUE k 0 3\r\nabc\r\nEND\r\n", "abc", true, false},
		{newMemcached(), "END\r\n", "", false, false},
		{newMemcached(), "VALUE k 0 3\r\nabc\r\nnot the end\r\n", "", false, true},
		{newMemcached(), "SERVER_ERROR\r\n", "", false, true},
	} {
		p := make([]byte, 16)
		r := bufio.NewReader(strings.NewReader(c.answer))
		n, found, err := c.wire.get(bufio.NewWriter(io.Discard), r, "k", p)
		if (err != nil) != c.fails || !c.fails && (found != c.found || string(p[:n]) != c.value) {
			t.Errorf("%q: %q, %v, %v", c.answer, p[:n], found, err)
		}
		if !c.fails && r.Buffered() > 0 {
			t.Errorf("%q: %d bytes are left", c.answer, r.Buffered())
		}
	}
}

// TestPrint: medians by server, phase and connections.
func TestPrint(t *testing.T) {
	var all []sample
	for i := range 3 {
		all = append(all, sample{Server: "a", Phase: "get", ValueBytes: 1, Connections: 1, MBPerSecond: float64(10 * (i + 1)), P99US: 7})
	}
	var b strings.Builder
	print(&b, all)
	if !strings.Contains(b.String(), "| 1 | get | 1 | a | 20 (10-30) | 0 | 0 | 7 | 0.00 | 0 |") {
		t.Error(b.String())
	}
	if _, err := parse([]string{"--dir", "x"}, io.Discard); err == nil {
		t.Error("a command line without a program to measure")
	}
}
