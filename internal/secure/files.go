package secure

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
)

// Identity names the files of a certificate and its key.
type Identity struct {
	Certificate string // PEM, others of the chain behind it
	Key         string // PEM
	Passphrase  string // of the key, if it is encrypted
}

// load reads both.
func (i *Identity) load() (tls.Certificate, error) {
	certificate, err := os.ReadFile(i.Certificate)
	if err == nil {
		err = firstCertificate(certificate)
	}
	if err != nil {
		return tls.Certificate{}, &Error{"Failed to load certificate: " + i.Certificate, reason(err)}
	}
	key, err := os.ReadFile(i.Key)
	if err == nil {
		key, err = decrypted(key, i.Passphrase)
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.X509KeyPair(certificate, key)
	}
	if err != nil {
		return pair, &Error{"Failed to load private key: " + i.Key, reason(err)}
	}
	return pair, nil
}

// reason leaves out the file's name, which stands before it.
func reason(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// firstCertificate checks that there is a certificate.
func firstCertificate(text []byte) error {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return errors.New("no certificate in PEM form")
		}
		if block.Type == "CERTIFICATE" {
			_, err := x509.ParseCertificate(block.Bytes)
			return err
		}
		text = rest
	}
}

// Trust names the certificates of those who sign others'.
type Trust struct {
	File      string // PEM
	Directory string // every file with certificates counts, whatever its name
}

func (t *Trust) empty() bool { return t.File == "" && t.Directory == "" }

// pool reads all of them.
func (t *Trust) pool() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if t.File != "" {
		text, err := os.ReadFile(t.File)
		if err == nil && !pool.AppendCertsFromPEM(text) {
			err = errors.New("no certificate in PEM form")
		}
		if err != nil {
			return nil, &Error{"Failed to configure CA certificate(s) file/directory: " + t.File, reason(err)}
		}
	}
	if t.Directory == "" {
		return pool, nil
	}
	entries, err := os.ReadDir(t.Directory)
	if err != nil {
		return nil, &Error{"Failed to configure CA certificate(s) file/directory: " + t.Directory, reason(err)}
	}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(t.Directory, entry.Name()))
		if err == nil {
			pool.AppendCertsFromPEM(text)
		}
	}
	return pool, nil
}
