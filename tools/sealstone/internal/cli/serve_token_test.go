package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// selfSigned makes a certificate for 127.0.0.1, and what trusts it.
func selfSigned(t *testing.T) (cert, key string, trust *tls.Config) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	certText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, text := range map[string][]byte{cert: certText, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certText)
	return cert, key, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
}

// newSecret makes a token by the command and gives its entry.
func newSecret(t *testing.T, arguments ...string) (secret, entry string) {
	t.Helper()
	status, entry, said := run(t, append([]string{"token"}, arguments...)...)
	if status != exitOK {
		t.Fatalf("token %v: status %d, %s", arguments, status, said)
	}
	return strings.TrimSpace(said), entry
}

// TestServeTokensOverTLS: tokens from the command through the file to what a
// peer may do, over TLS; tenants do not see each other; SIGHUP takes tokens
// away, from connections too, and sets quotas.
func TestServeTokensOverTLS(t *testing.T) {
	cert, key, trust := selfSigned(t)
	writer, first := newSecret(t, "writer", "--tenant", "a", "--rights", "read,write")
	reader, second := newSecret(t, "reader", "--tenant", "a", "--rights", "read")
	other, third := newSecret(t, "other", "--tenant", "b", "--rights", "read,write,drop")
	file := filepath.Join(t.TempDir(), "tokens.toml")
	if err := os.WriteFile(file, []byte(first+second+third), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startServer(t, filepath.Join(t.TempDir(), "store"), "--tokens", file, "--tls-cert", cert, "--tls-key", key)
	login := func(words ...string) *peer {
		p := dial(t, "tcp", c.resp, trust)
		if got := p.do(append([]string{"AUTH"}, words...)...); got != "+OK" {
			t.Fatalf("AUTH is answered with %q", got)
		}
		return p
	}
	w, r, o := login(writer), login("reader", reader), login("other", other)
	stranger := dial(t, "tcp", c.resp, trust)
	for _, x := range []struct {
		who  *peer
		ask  []string
		want string
	}{
		{stranger, []string{"GET", "k"}, "-NOAUTH"}, {stranger, []string{"AUTH", "guess"}, "-WRONGPASS"},
		{stranger, []string{"AUTH", "reader", writer}, "-WRONGPASS"},
		{w, []string{"SET", "k", "of a"}, "+OK"}, {r, []string{"GET", "k"}, "of a"}, {r, []string{"SET", "k2", "v"}, "-NOPERM"},
		{w, []string{"DEL", "k"}, "-NOPERM"}, {o, []string{"GET", "k"}, "(nil)"}, {o, []string{"SET", "k", "of b"}, "+OK"},
		{o, []string{"GET", "k"}, "of b"}, {o, []string{"DEL", "k"}, ":1"}, {r, []string{"GET", "k"}, "of a"},
	} {
		if got := x.who.do(x.ask...); !strings.HasPrefix(got, x.want) || strings.HasPrefix(x.want, "of") && got != x.want {
			t.Errorf("%v is answered with %q, want %q", x.ask, got, x.want)
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}}
	for secret, want := range map[string]int{"": 401, reader: 200} {
		q, err := http.NewRequest(http.MethodGet, "https://"+c.http+"/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		if secret != "" {
			q.Header.Set("Authorization", "Bearer "+secret)
		}
		got, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, got.Body)
		_ = got.Body.Close()
		if got.StatusCode != want {
			t.Errorf("/status is answered with %d, want %d", got.StatusCode, want)
		}
	}

	quota := "[tenant.b]\ndisk-quota = \"256KiB\"\n"
	changed, again := newSecret(t, "writer", "--tenant", "a", "--rights", "read,write")
	if err := os.WriteFile(file, []byte(quota+again+third), 0o600); err != nil {
		t.Fatal(err)
	}
	c.signal(syscall.SIGHUP)
	waitFor(t, "the reader's token is gone", func() bool {
		return strings.HasPrefix(dial(t, "tcp", c.resp, trust).do("AUTH", reader), "-WRONGPASS")
	})
	for who, p := range map[string]*peer{"a token that is gone": r, "a token with another secret": w} {
		if got := p.do("GET", "k"); !strings.HasPrefix(got, "-NOAUTH") {
			t.Errorf("%s gets %q", who, got)
		}
		if _, err := p.r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("the connection of %s stays: %v", who, err)
		}
	}
	if got := login(changed).do("GET", "k"); got != "of a" {
		t.Errorf("the new secret of a token gets %q", got)
	}
	tries := 0
	waitFor(t, "the quota holds", func() bool {
		tries++ // one of an earlier try may have come before the quota
		key := fmt.Sprint("large", tries)
		_ = o.do("SET", key, strings.Repeat(key, 100_000))
		return o.do("EXISTS", key) == ":0"
	})
	if got := o.do("SET", "small", "v"); got != "+OK" || o.do("GET", "small") != "v" {
		t.Errorf("within the quota SET is answered with %q", got)
	}
	c.stop()
}
