package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificateFiles makes a certificate for 127.0.0.1 that vouches for itself.
func certificateFiles(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	about := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "sealstone test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// trusting is the configuration of a client that trusts the certificate.
func trusting(t *testing.T, cert string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
}

// handshake tries server against client over a pair of sockets.
func handshake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer c.Close()
		done <- tls.Server(c, server).Handshake()
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), client)
	if err == nil {
		defer c.Close()
	}
	if serverErr := <-done; serverErr != nil {
		return serverErr
	}
	return err
}

func TestCertificates(t *testing.T) {
	cert, key := certificateFiles(t)
	otherCert, otherKey := certificateFiles(t)
	plain, err := LoadCertificates(cert, key, "")
	if err != nil {
		t.Fatal(err)
	}
	strict, err := LoadCertificates(cert, key, otherCert)
	if err != nil {
		t.Fatal(err)
	}
	client, old := trusting(t, cert), trusting(t, cert)
	old.MaxVersion = tls.VersionTLS11
	known := trusting(t, cert)
	pair, err := tls.LoadX509KeyPair(otherCert, otherKey)
	if err != nil {
		t.Fatal(err)
	}
	known.Certificates = []tls.Certificate{pair}
	for _, c := range []struct {
		name           string
		server, client *tls.Config
		want           bool
	}{
		{"RESP", plain.RESP(), client, true},
		{"HTTP", plain.HTTP(), client, true},
		{"an old version", plain.RESP(), old, false},
		{"a client that trusts another", plain.RESP(), trusting(t, otherCert), false},
		{"no certificate where one is asked for", strict.RESP(), client, false},
		{"the certificate that is asked for", strict.RESP(), known, true},
		{"HTTP asks for none", strict.HTTP(), client, true},
	} {
		if err := handshake(t, c.server, c.client); (err == nil) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestCertificatesReload(t *testing.T) {
	cert, key := certificateFiles(t)
	c, err := LoadCertificates(cert, key, "")
	if err != nil {
		t.Fatal(err)
	}
	before := c.pair.Load()
	if err := os.WriteFile(cert, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(); err == nil || c.pair.Load() != before {
		t.Errorf("a bad certificate is taken: %v", err)
	}
	nextCert, nextKey := certificateFiles(t)
	for from, to := range map[string]string{nextCert: cert, nextKey: key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Reload(); err != nil || c.pair.Load() == before {
		t.Errorf("the new certificate is not taken: %v", err)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(); err == nil || !strings.Contains(err.Error(), "chmod o-rwx") {
		t.Errorf("a key that everybody may read: %v", err)
	}
}
