package client

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
)

// answering is a server that answers each command by its name, and others not
// at all.
func answering(t *testing.T, answers map[string]string) (address string) {
	return fakeServer(t, func(c net.Conn) {
		p := make([]byte, 64<<10)
		for {
			n, err := c.Read(p)
			if err != nil {
				return
			}
			for name, answer := range answers {
				if strings.Contains(string(p[:n]), name) {
					_, _ = io.WriteString(c, answer)
				}
			}
		}
	})
}

// TestErrorWithinAnswer: an error line behind the beginning of an answer is no
// refusal of the command. A put may have been done then, and a get may have left
// in a region what nobody vouches for.
func TestErrorWithinAnswer(t *testing.T) {
	got := "*6\r\n$2\r\nok\r\n$0\r\n\r\n:8192\r\n:8192\r\n$0\r\n\r\n*0\r\n"
	put := "*4\r\n$2\r\nok\r\n$0\r\n\r\n$0\r\n\r\n:4096\r\n"
	c := mustDial(t, answering(t, map[string]string{
		"PING": "+PONG\r\n", "KV.OPEN": openAnswer, "KV.REGION": ":1\r\n", "KV.UNREGION": ":1\r\n",
		"KV.GET": "*2\r\n" + got + "-ERR internal error\r\n", "KV.PUT": "*2\r\n" + put + "-ERR internal error\r\n",
	}), Options{})
	n := mustSpace(t, c)
	mem := mustRegion(t, c, 16384).Bytes()
	for i := range mem {
		mem[i] = 0xa5
	}
	ctx := context.Background()
	gets := n.Get(ctx, []engine.GetBlock{wantedIn(1, mem[:8192]), wantedIn(2, mem[8192:])}, engine.GetOptions{WaitForDevice: true})
	if gets[0].Status != engine.StatusOK || mem[0] != 0xa5 {
		t.Errorf("get, before the error: %v %v", gets[0].Status, gets[0].Err)
	}
	if gets[1].Status != engine.StatusIOError || !errors.Is(gets[1].Err, ErrProtocol) {
		t.Errorf("get, behind the error: %v %v", gets[1].Status, gets[1].Err)
	}
	for i, b := range mem[8192:] {
		if b != 0 {
			t.Fatalf("byte %d of the block behind the error is %#x", i, b)
		}
	}
	puts := n.Put(ctx, []engine.PutBlock{blockIn(1, mem[:8192]), blockIn(2, mem[8192:])}, engine.PutOptions{})
	for i, r := range puts {
		if r.Status != engine.StatusIOError || !errors.Is(r.Err, ErrProtocol) {
			t.Errorf("put %d: %v %v", i, r.Status, r.Err)
		}
	}
}

// TestSpentByForgetting: a connection that breaks when the server is told of
// the end of a region is not lent again.
func TestSpentByForgetting(t *testing.T) {
	c := mustDial(t, answering(t, map[string]string{"PING": "+PONG\r\n", "KV.REGION": ":1\r\n", "KV.UNREGION": "+what\r\n"}), Options{Connections: 1})
	mustRegion(t, c, 4096).Release()
	s := <-c.pool.idle
	if s.conn != nil {
		t.Error("the connection that is out of step is kept")
	}
	c.pool.give(c.pool.idle, s)
}
