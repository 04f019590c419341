// Package certificates makes authorities, and certificates that they have signed, for tests of TLS.
package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// Authority signs certificates. Its files are in a directory that goes with the test.
type Authority struct {
	File string // its own certificate

	t           Owner
	directory   string
	certificate *x509.Certificate
	key         crypto.Signer
	serial      int64
}

// Owner is a test, or a program that does what a test does: it gives directories, and is told when
// something fails.
type Owner interface {
	Helper()
	TempDir() string
	Fatal(words ...any)
}

// Certificate names the files of a certificate and its key.
type Certificate struct{ File, Key string }

// NewAuthority makes an authority.
func NewAuthority(t Owner) *Authority {
	t.Helper()
	a := &Authority{t: t, directory: t.TempDir(), serial: 1}
	a.File = filepath.Join(a.directory, "authority.crt")
	a.key = a.newKey()
	template := a.template("authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a.certificate = template
	a.certificate = a.write(a.File, template, a.key.Public())
	return a
}

func (a *Authority) newKey() crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	return key
}

func (a *Authority) template(name string) *x509.Certificate {
	a.serial++
	now := time.Now()
	return &x509.Certificate{SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(24 * time.Hour), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
}

func (a *Authority) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// write signs a certificate and writes it to a file.
func (a *Authority) write(file string, template *x509.Certificate, public crypto.PublicKey) *x509.Certificate {
	a.t.Helper()
	signed, err := x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
	a.must(err)
	a.must(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600))
	certificate, err := x509.ParseCertificate(signed)
	a.must(err)
	return certificate
}

// Sign makes a certificate for a common name, and URIs that are among its alternative names.
func (a *Authority) Sign(name string, uris ...string) Certificate {
	a.t.Helper()
	template := a.template(name)
	for _, text := range uris {
		uri, err := url.Parse(text)
		a.must(err)
		template.URIs = append(template.URIs, uri)
	}
	directory := a.t.TempDir()
	c := Certificate{filepath.Join(directory, "certificate.crt"), filepath.Join(directory, "key.pem")}
	key := a.newKey()
	a.write(c.File, template, key.Public())
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	a.must(err)
	a.must(os.WriteFile(c.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600))
	return c
}

// Pool trusts the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Client is the configuration of a client that shows a certificate, or none where it is empty.
func (a *Authority) Client(c Certificate) *tls.Config {
	a.t.Helper()
	config := &tls.Config{RootCAs: a.Pool(), ServerName: "localhost"}
	if c.File != "" {
		pair, err := tls.LoadX509KeyPair(c.File, c.Key)
		a.must(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// ServerOptions are the options that Redis and Kedis need for TLS, but for the port.
func (a *Authority) ServerOptions(c Certificate) []string {
	return []string{"--tls-cert-file", c.File, "--tls-key-file", c.Key, "--tls-ca-cert-file", a.File}
}

// ClientFlags are those of redis-cli, redis-benchmark and Kedis's commands.
func (a *Authority) ClientFlags(c Certificate) []string {
	return []string{"--tls", "--cacert", a.File, "--cert", c.File, "--key", c.Key}
}
