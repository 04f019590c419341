// Package secure makes crypto/tls's configurations of files and of Redis's options, and keeps the
// ones in force.
//
// It knows no connection and no option table: whoever has options passes Settings. Error texts are
// those of Redis's log.
package secure

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ClientCertificates says what a server asks of its clients.
type ClientCertificates int

// The order is that of the names of tls-auth-clients in Redis's error texts.
const (
	NotAsked ClientCertificates = iota
	Required
	Optional
)

// Settings is what the options say.
type Settings struct {
	Server Identity // of the side that is connected to
	Client Identity // of the side that connects; without a certificate it is Server's
	Trust  Trust    // who has signed the other side's certificate

	ClientCertificates ClientCertificates
	MustTrust          bool // Trust is needed although no client is asked: there are connections to other servers

	Protocols string // names separated by spaces; empty is TLS 1.2 and 1.3
	Ciphers   string // OpenSSL's list, for TLS 1.2 and below; empty is crypto/tls's choice
	Suites    string // of TLS 1.3

	Resumption      bool          // sessions may be taken up again
	ResumptionLimit time.Duration // for so long; 0 is a week
}

// ServerConfig returns the configuration for a server's connections.
func (s *Settings) ServerConfig() (*tls.Config, error) {
	switch {
	case s.Server.Certificate == "":
		return nil, wrong("No tls-cert-file configured!")
	case s.Server.Key == "":
		return nil, wrong("No tls-key-file configured!")
	case s.Trust.empty() && (s.MustTrust || s.ClientCertificates != NotAsked):
		return nil, wrong("Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, tls-replication or tls-auth-clients are enabled!")
	}
	c, err := s.common(&s.Server)
	if err != nil {
		return nil, err
	}
	if s.ClientCertificates != NotAsked {
		if c.ClientCAs, err = s.Trust.pool(); err != nil {
			return nil, err
		}
	}
	c.ClientAuth = map[ClientCertificates]tls.ClientAuthType{NotAsked: tls.NoClientCert, Required: tls.RequireAndVerifyClientCert,
		Optional: tls.VerifyClientCertIfGiven}[s.ClientCertificates]
	c.SessionTicketsDisabled = !s.Resumption
	if s.Resumption && s.ResumptionLimit > 0 {
		limitResumption(c, s.ResumptionLimit)
	}
	return c, nil
}

// ClientConfig returns the configuration for connections to servers. As with Redis, a server's
// certificate has to be signed by somebody who is trusted, and may have any name.
func (s *Settings) ClientConfig() (*tls.Config, error) {
	own := &s.Client
	if own.Certificate == "" {
		own = &s.Server
	}
	c, err := s.common(own)
	if err != nil {
		return nil, err
	}
	trusted, err := s.Trust.pool()
	if err != nil {
		return nil, err
	}
	return c, verifyAnyName(c, trusted)
}

// common is what both sides have.
func (s *Settings) common(own *Identity) (*tls.Config, error) {
	// Small records at first would only be for browsers, which show a page before it is whole.
	c := &tls.Config{DynamicRecordSizingDisabled: true}
	if own.Certificate != "" {
		certificate, err := own.load()
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{certificate}
	}
	var err error
	if c.MinVersion, c.MaxVersion, err = protocols(s.Protocols); err != nil {
		return nil, err
	}
	if c.CipherSuites, err = ciphers(s.Ciphers); err != nil {
		return nil, err
	}
	return c, checkSuites(s.Suites)
}

// verifyAnyName has a client check who has signed a server's certificate, and not for which name.
func verifyAnyName(c *tls.Config, trusted *x509.CertPool) error {
	c.InsecureSkipVerify = true // of the name; VerifyConnection checks the rest
	c.VerifyConnection = func(state tls.ConnectionState) error {
		options := x509.VerifyOptions{Roots: trusted, Intermediates: x509.NewCertPool()}
		for _, certificate := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(certificate)
		}
		_, err := state.PeerCertificates[0].Verify(options)
		return err
	}
	return nil
}

// protocols reads a list of versions.
func protocols(text string) (least, most uint16, err error) {
	names := strings.Fields(text)
	if len(names) == 0 {
		return tls.VersionTLS12, tls.VersionTLS13, nil
	}
	known := []string{"TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"}
	chosen := make([]bool, len(known))
	for _, name := range names {
		found := false
		for i := range known {
			if strings.EqualFold(name, known[i]) {
				chosen[i], found = true, true
			}
		}
		if !found {
			return 0, 0, wrong("Invalid tls-protocols specified. Use a combination of 'TLSv1', 'TLSv1.1', 'TLSv1.2' and 'TLSv1.3'.")
		}
	}
	ended := false
	for i, taken := range chosen {
		version := uint16(tls.VersionTLS10 + i)
		switch {
		case taken && ended:
			return 0, 0, wrong("Invalid tls-protocols specified. Versions between two others can't be left out here.")
		case taken && least == 0:
			least, most = version, version
		case taken:
			most = version
		case least != 0:
			ended = true
		}
	}
	return least, most, nil
}

// resumptionMark begins what a session's ticket has besides what crypto/tls puts there: the time of
// the handshake, Unix seconds, 8 bytes big endian.
const resumptionMark = "kedis:"

// limitResumption makes sessions end after a time. Tickets are sealed by keys that crypto/tls
// changes each day; they are worth nothing any more when a new configuration takes this one's
// place.
func limitResumption(c *tls.Config, limit time.Duration) {
	c.WrapSession = func(state tls.ConnectionState, session *tls.SessionState) ([]byte, error) {
		began := binary.BigEndian.AppendUint64([]byte(resumptionMark), uint64(time.Now().Unix()))
		if marked(session) == nil { // it isn't one that goes on
			session.Extra = append(session.Extra, began)
		}
		return c.EncryptTicket(state, session)
	}
	c.UnwrapSession = func(identity []byte, state tls.ConnectionState) (*tls.SessionState, error) {
		session, err := c.DecryptTicket(identity, state)
		if session == nil || err != nil {
			return nil, err
		}
		began := marked(session)
		if began == nil || time.Since(time.Unix(int64(binary.BigEndian.Uint64(began)), 0)) > limit {
			return nil, nil
		}
		return session, nil
	}
}

// marked returns the time in a session; nil if it has none.
func marked(session *tls.SessionState) []byte {
	for _, extra := range session.Extra {
		if began, ok := strings.CutPrefix(string(extra), resumptionMark); ok && len(began) == 8 {
			return []byte(began)
		}
	}
	return nil
}

// Flags is what the command line says of a connection to a server; the names are redis-cli's.
type Flags struct {
	Own      Identity
	Trust    Trust // empty: the system's
	Insecure bool
	Name     string // that the server is asked for (SNI); empty: none
}

// Config returns the configuration for connections.
func (f *Flags) Config() (*tls.Config, error) {
	settings := Settings{}
	if (f.Own.Certificate == "") != (f.Own.Key == "") {
		return nil, errors.New("--cert and --key: a certificate needs its key")
	}
	c, err := settings.common(&f.Own)
	if err != nil {
		return nil, err
	}
	c.ServerName = f.Name
	if f.Insecure {
		c.InsecureSkipVerify = true
		return c, nil
	}
	var trusted *x509.CertPool
	if !f.Trust.empty() {
		if trusted, err = f.Trust.pool(); err != nil {
			return nil, err
		}
	} else if trusted, err = x509.SystemCertPool(); err != nil {
		return nil, fmt.Errorf("the system's certificates: %w", err)
	}
	return c, verifyAnyName(c, trusted)
}
