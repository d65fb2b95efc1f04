package server

import (
	"io"
	"testing"
)

func TestPing(t *testing.T) {
	p := newRig(t, Options{}).dial()
	if _, err := io.WriteString(p.c, "PING\r\n*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n"); err != nil {
		t.Fatal(err)
	}
	want := "+PONG\r\n$2\r\nhi\r\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(p.in, got); err != nil || string(got) != want {
		t.Fatalf("%q %v, want %q", got, err, want)
	}
}
