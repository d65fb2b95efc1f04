package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hang ends a test that would wait for ever.
const hang = time.Minute

// serve starts a server on loopback TCP and on a Unix socket.
func serve(t *testing.T) (tcp, unix string) {
	t.Helper()
	store, err := engine.Open(t.TempDir(), engine.Options{CapacityBytes: 256 << 20, MaxBlockBytes: 4 << 20, SegmentBytes: 8 << 20, Path: engine.PathPread})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(store, server.Options{ValueBytesMax: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	unix = filepath.Join(t.TempDir(), "s")
	var serving sync.WaitGroup
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": unix} {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		if network == "tcp" {
			tcp = l.Addr().String()
		}
		serving.Go(func() {
			if err := s.Serve(l); !errors.Is(err, server.ErrClosed) {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		if _, err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		serving.Wait()
		if err := store.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return tcp, unix
}

// clients runs a test over TCP and a Unix socket, in both versions.
func clients(t *testing.T, test func(t *testing.T, ctx context.Context, c *redis.Client)) {
	tcp, unix := serve(t)
	for _, o := range []redis.Options{
		{Addr: tcp, Protocol: 2}, {Addr: tcp, Protocol: 3}, {Network: "unix", Addr: unix, Protocol: 3},
	} {
		t.Run(fmt.Sprintf("%s%d", o.Network, o.Protocol), func(t *testing.T) {
			o.ClientName = "redistest"
			c := redis.NewClient(&o)
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), hang)
			defer cancel()
			test(t, ctx, c)
			if err := c.FlushAll(ctx).Err(); err == nil {
				t.Error("FLUSHALL is known")
			}
			keys, _ := c.Keys(ctx, "*").Result()
			if len(keys) > 0 {
				t.Errorf("KEYS: %v", keys)
			}
		})
	}
}

func TestGoRedis(t *testing.T) {
	clients(t, func(t *testing.T, ctx context.Context, c *redis.Client) {
		if s, err := c.Ping(ctx).Result(); err != nil || s != "PONG" {
			t.Fatalf("PING: %q %v", s, err)
		}
		if err := c.Get(ctx, "no such key").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("GET of nothing: %v", err)
		}
		for _, size := range []int{0, 1, 4096, 100_000, 1 << 20} {
			value := randomBytes(size)
			if err := c.Set(ctx, "k", value, 0).Err(); err != nil {
				t.Fatalf("SET of %d bytes: %v", size, err)
			}
			got, err := c.Get(ctx, "k").Bytes()
			if err != nil || !bytes.Equal(got, value) {
				t.Fatalf("GET of %d bytes: %d, %v", size, len(got), err)
			}
			if n, err := c.StrLen(ctx, "k").Result(); err != nil || n != int64(size) {
				t.Errorf("STRLEN of %d bytes: %d %v", size, n, err)
			}
		}
		if set, err := c.SetNX(ctx, "k", "other", 0).Result(); err != nil || set {
			t.Errorf("SETNX: %v %v", set, err)
		}
		if err := c.Set(ctx, "k", "v", time.Minute).Err(); err == nil {
			t.Error("a time to live was accepted")
		}
		if n, err := c.Exists(ctx, "k", "no", "k").Result(); err != nil || n != 2 {
			t.Errorf("EXISTS: %d %v", n, err)
		}
		if d, err := c.TTL(ctx, "k").Result(); err != nil || d != -1 {
			t.Errorf("TTL: %v %v", d, err)
		}
		if s, err := c.Type(ctx, "k").Result(); err != nil || s != "string" {
			t.Errorf("TYPE: %q %v", s, err)
		}
		if name, err := c.ClientGetName(ctx).Result(); err != nil || name != "redistest" {
			t.Errorf("CLIENT GETNAME: %q %v", name, err)
		}
		if m, err := c.ConfigGet(ctx, "save").Result(); err != nil || m["save"] != "" {
			t.Errorf("CONFIG GET: %v %v", m, err)
		}
		if s, err := c.Info(ctx, "server").Result(); err != nil || len(s) == 0 {
			t.Errorf("INFO: %q %v", s, err)
		}
		if m, err := c.Command(ctx).Result(); err != nil || m["get"] == nil {
			t.Errorf("COMMAND: %d, %v", len(m), err)
		}
		if n, err := c.Del(ctx, "k").Result(); err != nil || n != 1 {
			t.Errorf("DEL: %d %v", n, err)
		}
	})
}

func TestGoRedisMany(t *testing.T) {
	clients(t, func(t *testing.T, ctx context.Context, c *redis.Client) {
		const n = 100
		var want []string
		cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range n {
				k := fmt.Sprintf("key %03d", i)
				want = append(want, k)
				p.Set(ctx, k, bytes.Repeat([]byte(k), 1+i*20), 0)
				p.Get(ctx, k)
			}
			return nil
		})
		if err != nil || len(cmds) != 2*n {
			t.Fatalf("pipeline: %d %v", len(cmds), err)
		}
		values, err := c.MGet(ctx, append([]string{"no"}, want...)...).Result()
		if err != nil || len(values) != n+1 || values[0] != nil {
			t.Fatalf("MGET: %d %v", len(values), err)
		}
		for i, k := range want {
			whole := string(bytes.Repeat([]byte(k), 1+i*20))
			if got, _ := cmds[2*i+1].(*redis.StringCmd).Result(); got != whole || values[i+1] != whole {
				t.Fatalf("value %d differs", i)
			}
		}
		var got []string
		for iter := c.Scan(ctx, 0, "key *", 7).Iterator(); iter.Next(ctx); {
			got = append(got, iter.Val())
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("SCAN: %d keys of %d", len(got), len(want))
		}
		if removed, err := c.Unlink(ctx, want...).Result(); err != nil || removed != n {
			t.Errorf("UNLINK: %d %v", removed, err)
		}
	})
}

func randomBytes(n int) []byte {
	p := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = r.Read(p)
	return p
}
