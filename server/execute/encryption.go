package execute

import (
	"fmt"
	"path/filepath"
	"time"

	"kedis/internal/config"
	"kedis/internal/secure"
)

// initEncryption has the options of TLS take effect when they change. LoadTLS puts them into effect
// for the first time.
func (e *Engine) initEncryption() {
	c := e.Config
	e.TLS = secure.NewKeeper(func() (secure.Settings, bool) { return encryptionSettings(c) })
	for _, name := range []string{"tls-cert-file", "tls-key-file", "tls-key-file-pass", "tls-client-cert-file", "tls-client-key-file",
		"tls-client-key-file-pass", "tls-ca-cert-file", "tls-ca-cert-dir", "tls-auth-clients", "tls-replication", "tls-protocols",
		"tls-ciphers", "tls-ciphersuites", "tls-session-caching", "tls-session-cache-timeout"} {
		c.OnChange(name, e.changeTLS)
	}
}

// errTLS is what Redis tells a client.
const errTLS = config.Refusal("Unable to update TLS configuration. Check server logs.")

func (e *Engine) changeTLS() error {
	if err := e.TLS.Load(); err != nil {
		e.Logger.Warn("the options of TLS stay as they were", "error", err)
		return errTLS
	}
	return nil
}

// LoadTLS reads the files that the options of TLS name. After an error everything stays as it is.
func (e *Engine) LoadTLS() error {
	if err := e.TLS.Load(); err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	return nil
}

// encryptionSettings is what the options say; false: there is no TLS.
func encryptionSettings(c *config.Config) (secure.Settings, bool) {
	// As in Redis, which works in that directory.
	path := func(name *config.String) string {
		if name.Get() == "" || filepath.IsAbs(name.Get()) {
			return name.Get()
		}
		return filepath.Join(c.Dir.Get(), name.Get())
	}
	s := secure.Settings{
		Server: secure.Identity{Certificate: path(&c.TLSCertFile), Key: path(&c.TLSKeyFile), Passphrase: c.TLSKeyFilePass.Get()},
		Client: secure.Identity{Certificate: path(&c.TLSClientCertFile), Key: path(&c.TLSClientKeyFile), Passphrase: c.TLSClientKeyFilePass.Get()},
		Trust:  secure.Trust{File: path(&c.TLSCACertFile), Directory: path(&c.TLSCACertDir)},
		ClientCertificates: map[config.TLSAuthClients]secure.ClientCertificates{config.TLSAuthNo: secure.NotAsked, config.TLSAuthYes: secure.Required,
			config.TLSAuthOptional: secure.Optional}[c.TLSAuthClients.Get()],
		MustTrust: c.TLSReplication.Get(), Protocols: c.TLSProtocols.Get(), Ciphers: c.TLSCiphers.Get(), Suites: c.TLSCipherSuites.Get(),
		Resumption: c.TLSSessionCaching.Get(), ResumptionLimit: time.Duration(c.TLSSessionCacheTimeout.Get()) * time.Second,
	}
	return s, c.TLSPort.Get() != 0 || c.TLSReplication.Get()
}
