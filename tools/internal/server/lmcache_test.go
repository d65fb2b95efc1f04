package server

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// chunkKey is a key as LMCache makes it.
func chunkKey(i int) string {
	return fmt.Sprintf("meta-llama/Llama-3.1-8B@%08x@%x@%064x", 1<<24, 0, i)
}

func randomBytes(seed uint64, n int) []byte {
	p := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	_, _ = r.Read(p)
	return p
}

// oldClient is LMCache's connector as it was: it reads fixed numbers of bytes
// and never looks for the end of a line.
type oldClient struct{ *peer }

func (c oldClient) set(key string, value []byte) {
	c.t.Helper()
	c.send(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", len(key), key, len(value)))
	c.send(string(value))
	c.send("\r\n")
	c.exact("+OK\r\n")
}

func (c oldClient) exists(key string) bool {
	c.t.Helper()
	c.send(fmt.Sprintf("*2\r\n$6\r\nEXISTS\r\n$%d\r\n%s\r\n", len(key), key))
	var answer [4]byte
	if _, err := io.ReadFull(c.in, answer[:]); err != nil {
		c.t.Fatal(err)
	}
	if s := string(answer[:]); s != ":1\r\n" && s != ":0\r\n" {
		c.t.Fatalf("EXISTS: %q", s)
	}
	return answer[1] == '1'
}

// get reads a header of exactly the length that the value's has, then the
// value into a buffer of its length.
func (c oldClient) get(key string, size int) []byte {
	c.t.Helper()
	c.send(fmt.Sprintf("*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key))
	c.exact(fmt.Sprintf("$%d\r\n", size))
	value := make([]byte, size)
	if _, err := io.ReadFull(c.in, value); err != nil {
		c.t.Fatal(err)
	}
	c.exact("\r\n")
	return value
}

// newClient is the connector since it reads the header up to the end of its
// line: it knows a miss, and deletes.
type newClient struct{ oldClient }

// get returns nil for a miss; a value of another length is a failure.
func (c newClient) get(key string, size int) []byte {
	c.t.Helper()
	c.send(fmt.Sprintf("*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key))
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	if line == "$-1\r\n" {
		return nil
	}
	if line != fmt.Sprintf("$%d\r\n", size) {
		c.t.Fatalf("GET: header %q for %d bytes", line, size)
	}
	value := make([]byte, size)
	if _, err := io.ReadFull(c.in, value); err != nil {
		c.t.Fatal(err)
	}
	c.exact("\r\n")
	return value
}

func (c newClient) del(key string) bool {
	c.t.Helper()
	c.send(fmt.Sprintf("*2\r\n$3\r\nDEL\r\n$%d\r\n%s\r\n", len(key), key))
	line, err := c.in.ReadString('\n')
	if err != nil || line != ":1\r\n" && line != ":0\r\n" {
		c.t.Fatalf("DEL: %q %v", line, err)
	}
	return line[1] == '1'
}

var chunkSizes = []int{1, 511, 4096, 8192, 8193, 100_000, 1 << 20, 1<<20 + 1}

func TestLMCacheOldClient(t *testing.T) {
	c := oldClient{newRig(t, Options{}).dial()}
	for i, size := range chunkSizes {
		key, value := chunkKey(i), randomBytes(uint64(i), size)
		if c.exists(key) {
			t.Fatalf("%s exists before it is set", key)
		}
		for range 2 { // LMCache sets again what it does not remember to have set
			c.set(key, value)
		}
		if !c.exists(key) || !bytes.Equal(c.get(key, size), value) {
			t.Fatalf("chunk of %d bytes: other bytes", size)
		}
	}
}

func TestLMCacheNewClient(t *testing.T) {
	r := newRig(t, Options{})
	c := newClient{oldClient{r.dial()}}
	for i, size := range chunkSizes {
		key, value := chunkKey(i), randomBytes(uint64(i), size)
		if c.get(key, size) != nil || c.del(key) {
			t.Fatal("there before it is set")
		}
		c.set(key, value)
		if !bytes.Equal(c.get(key, size), value) {
			t.Fatalf("chunk of %d bytes: other bytes", size)
		}
		if !c.del(key) || c.exists(key) || c.get(key, size) != nil {
			t.Fatal("there after it is deleted")
		}
	}
}

// TestLMCacheShed: a value for which there is no room is +OK, and then a miss.
func TestLMCacheShed(t *testing.T) {
	r := newRig(t, Options{ValueBytesMax: 64 << 10})
	c := newClient{oldClient{r.dial()}}
	for _, k := range []string{chunkKey(0), strings.Repeat("k", keyBytesMax+1), ""} {
		size := 10
		if k == chunkKey(0) {
			size = 64<<10 + 1
		}
		c.set(k, make([]byte, size))
		if c.exists(k) || c.get(k, size) != nil || c.del(k) {
			t.Fatalf("key of %d bytes: stored", len(k))
		}
	}
	st := r.s.Stats()
	if st.Kinds["plain"].Shed != 3 || st.Limits["value-bytes"] != 1 || st.Limits["key-bytes"] != 2 {
		t.Errorf("%+v %v", st.Kinds["plain"], st.Limits)
	}
}

// TestLMCacheDamage: a byte on disk is flipped; that value is a miss on the
// connection that goes on, and no other is touched.
func TestLMCacheDamage(t *testing.T) {
	r := newRig(t, Options{})
	c := newClient{oldClient{r.dial()}}
	values := [][]byte{randomBytes(1, 100_000), randomBytes(2, 100_000), randomBytes(3, 100_000)}
	for i, v := range values {
		c.set(chunkKey(i), v)
	}
	r.flip(values[1][50_000:50_064])
	if !c.exists(chunkKey(1)) {
		t.Fatal("the damage can not be known before the value is read")
	}
	for i, v := range values {
		got := c.get(chunkKey(i), len(v))
		if i == 1 && got != nil || i != 1 && !bytes.Equal(got, v) {
			t.Fatalf("value %d: %d bytes", i, len(got))
		}
	}
	if c.exists(chunkKey(1)) {
		t.Error("the damaged value is still there")
	}
	c.set(chunkKey(1), values[1])
	if !bytes.Equal(c.get(chunkKey(1), len(values[1])), values[1]) {
		t.Error("the value can not be set again")
	}
	if got := r.s.Stats().Kinds["plain"].Corrupt; got != 1 {
		t.Errorf("%d corrupt values counted", got)
	}
}

// flip changes a bit on disk of the bytes that begin with mark.
func (r *rig) flip(mark []byte) {
	r.t.Helper()
	if err := r.store.Flush(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	found := 0
	err := filepath.WalkDir(filepath.Join(r.dir, "segments"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		p, err := os.ReadFile(path)
		at := bytes.Index(p, mark)
		if err != nil || at < 0 {
			return err
		}
		found++
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt([]byte{p[at] ^ 1}, int64(at))
		return err
	})
	if err != nil || found != 1 {
		r.t.Fatalf("flip: found %d times, %v", found, err)
	}
}

// TestLMCacheVerifiedExists: with VerifyOnExists a damaged value does not exist,
// for clients that wait for ever when a GET is a miss.
func TestLMCacheVerifiedExists(t *testing.T) {
	r := newRig(t, Options{VerifyOnExists: true})
	c := oldClient{r.dial()}
	value := randomBytes(7, 100_000)
	c.set(chunkKey(0), value)
	if !c.exists(chunkKey(0)) {
		t.Fatal("a sound value does not exist")
	}
	r.flip(value[:64])
	if c.exists(chunkKey(0)) {
		t.Fatal("a damaged value exists")
	}
}
