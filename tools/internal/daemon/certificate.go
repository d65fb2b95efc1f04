package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// Certificates are the server's side of TLS. Reload takes new files over for
// connections from then on.
type Certificates struct {
	certFile, keyFile string
	pair              atomic.Pointer[tls.Certificate]
	clients           *x509.CertPool
}

// LoadCertificates reads the files. clientCA may be "": no certificate of a
// client is asked for.
func LoadCertificates(certFile, keyFile, clientCA string) (*Certificates, error) {
	c := &Certificates{certFile: certFile, keyFile: keyFile}
	if err := c.Reload(); err != nil {
		return nil, err
	}
	if clientCA == "" {
		return c, nil
	}
	text, err := os.ReadFile(clientCA)
	if err != nil {
		return nil, fmt.Errorf("read the authorities of clients: %w", err)
	}
	c.clients = x509.NewCertPool()
	if !c.clients.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", clientCA)
	}
	return c, nil
}

// Reload reads certificate and key again. When that fails, those from before
// stay.
func (c *Certificates) Reload() error {
	if i, err := os.Stat(c.keyFile); err == nil && i.Mode().Perm()&0o007 != 0 {
		return fmt.Errorf("everybody may read the key %s (mode %04o); run: chmod o-rwx %[1]s", c.keyFile, i.Mode().Perm())
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("load certificate %s and key %s: %w", c.certFile, c.keyFile, err)
	}
	c.pair.Store(&pair)
	return nil
}

// base is what RESP and HTTP have in common.
func (c *Certificates) base() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair := c.pair.Load()
			if pair == nil {
				return nil, errors.New("no certificate is loaded")
			}
			return pair, nil
		},
	}
}

// RESP is the configuration for peers: with authorities of clients, each must
// show a certificate of theirs.
func (c *Certificates) RESP() *tls.Config {
	t := c.base()
	if c.clients != nil {
		t.ClientCAs, t.ClientAuth = c.clients, tls.RequireAndVerifyClientCert
	}
	return t
}

// HTTP is the configuration for metrics and the page; scrapers show no
// certificate, they have tokens.
func (c *Certificates) HTTP() *tls.Config { return c.base() }
