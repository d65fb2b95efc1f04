package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// malformed are frames that are none; each is to be answered by an error line
// and the end of the connection.
var malformed = []string{
	"*-2\r\n",
	"*1\r\n$-5\r\n",
	"*99999999999\r\n",
	"*2\r\n$3\r\nGET\r\n+k\r\n",
	"*2\r\n$3\r\nGET\r\n$2\r\nabcd\r\n",
	"*1\r\n$99999999999999999999\r\n",
	"*x\r\n",
	"SET \"unbalanced\r\n",
}

// unfinished are beginnings of frames.
var unfinished = []string{
	"*3\r\n$3\r\nSET\r\n$4\r\nrude\r\n$100000\r\nno more than this",
	"*3\r\n$3\r\nSET\r\n$4\r\nru",
	"*",
	"GET ru",
	"*2\r\n$4\r\nMGET\r\n$1000000\r\n",
}

const rudePause = 20 * time.Millisecond

// rude connects again and again and does what no client should.
func (r *run) rude(ctx context.Context, i int) {
	for ; ctx.Err() == nil; i++ {
		r.rudeOnce(ctx, i)
		select {
		case <-ctx.Done():
		case <-time.After(rudePause):
		}
	}
}

func (r *run) rudeOnce(ctx context.Context, i int) {
	k, err := dial(ctx, &r.c, i/16, false)
	if err != nil {
		if ctx.Err() == nil && !r.c.Reconnect {
			r.tally.rudeUntold.Add(1)
			r.tally.example("a rude connection was not accepted: " + err.Error())
		}
		return
	}
	defer k.close()
	k.begin()
	if i%2 == 0 {
		_, _ = io.WriteString(k.conn, unfinished[i/2%len(unfinished)])
		// Gone without a good bye: a reset where there is one.
		if t, ok := k.conn.(*net.TCPConn); ok && i%4 == 0 {
			_ = t.SetLinger(0)
		}
		r.tally.rudeGone.Add(1)
		return
	}
	frame := malformed[i/2%len(malformed)]
	_, _ = io.WriteString(k.conn, frame)
	said, err := io.ReadAll(io.LimitReader(k.in, 4<<10))
	switch {
	case bytes.HasPrefix(said, []byte("-")) && bytes.HasSuffix(said, []byte("\r\n")) && !errors.Is(err, os.ErrDeadlineExceeded):
		r.tally.rudeTold.Add(1)
	case r.c.Reconnect && len(said) == 0: // the server was killed
	default:
		r.tally.rudeUntold.Add(1)
		r.tally.example(fmt.Sprintf("the frame %q was answered by %q, %v", frame, said, err))
	}
}
