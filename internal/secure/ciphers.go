package secure

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// suite is a cipher suite of TLS 1.2 or below.
type suite struct {
	id    uint16
	words []string // that OpenSSL's lists select it by: its names, and what it consists of
}

// openSSLName turns the registered name into OpenSSL's.
var openSSLName = strings.NewReplacer("TLS_RSA_WITH_", "", "TLS_", "", "_WITH_", "-", "AES_128_CBC", "AES128", "AES_256_CBC", "AES256",
	"AES_128", "AES128", "AES_256", "AES256", "3DES_EDE_CBC", "DES-CBC3", "RC4_128", "RC4", "POLY1305_SHA256", "POLY1305", "_", "-")

// suites are all that crypto/tls has for TLS 1.2 and below.
func suites() (all []suite) {
	secure := tls.CipherSuites()
	for i, s := range slices.Concat(secure, tls.InsecureCipherSuites()) {
		if !slices.Contains(s.SupportedVersions, tls.VersionTLS12) {
			continue
		}
		name := openSSLName.Replace(s.Name)
		words := strings.Split(name, "-")
		if last := len(words) - 1; strings.Contains(name, "GCM") {
			words = words[:last] // the hash is none of the records
		}
		words = append(words, name, s.Name)
		if strings.Contains(s.Name, "ECDHE") {
			words = append(words, "EECDH", "kECDHE", "kEECDH")
		} else {
			words = append(words, "kRSA", "RSA")
		}
		if strings.Contains(s.Name, "ECDSA") {
			words = append(words, "aECDSA")
		} else {
			words = append(words, "aRSA")
		}
		weak := strings.Contains(s.Name, "RC4") || strings.Contains(s.Name, "3DES")
		switch {
		case strings.Contains(s.Name, "GCM"):
			words = append(words, "AESGCM", "AES", "TLSv1.2")
		case strings.Contains(s.Name, "AES"):
			words = append(words, "AES")
		case strings.Contains(s.Name, "3DES"):
			words = append(words, "3DES")
		}
		if strings.HasSuffix(s.Name, "_SHA") {
			words = append(words, "SHA1")
		}
		if weak {
			words = append(words, "MEDIUM")
		} else {
			words = append(words, "HIGH", "ALL")
		}
		if i < len(secure) {
			words = append(words, "DEFAULT")
		}
		all = append(all, suite{s.ID, words})
	}
	return all
}

// has reports whether an element of a list selects the suite: all of its parts do.
func (s *suite) has(element string) bool {
	for part := range strings.SplitSeq(element, "+") {
		if !slices.Contains(s.words, part) {
			return false
		}
	}
	return true
}

// ciphers reads a list as OpenSSL's ciphers(1) describes it. What it doesn't know selects nothing.
// The order is without meaning, since crypto/tls has its own.
func ciphers(list string) ([]uint16, error) {
	if list == "" {
		return nil, nil
	}
	all := suites()
	chosen, banned := map[uint16]bool{}, map[uint16]bool{}
	for element := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ':' || r == ',' || r == ' ' }) {
		name := strings.TrimLeft(element, "!-+")
		for i := range all {
			s := &all[i]
			if !s.has(name) {
				continue
			}
			switch element[0] {
			case '!':
				banned[s.id] = true
			case '-':
				delete(chosen, s.id)
			case '+': // moves what is chosen
			default:
				chosen[s.id] = true
			}
		}
	}
	var ids []uint16
	for _, s := range all {
		if chosen[s.id] && !banned[s.id] {
			ids = append(ids, s.id)
		}
	}
	if len(ids) == 0 {
		return nil, wrong("Failed to configure ciphers: " + list)
	}
	return ids, nil
}

// suitesOf13 are those of TLS 1.3 that crypto/tls has. It always offers all of them.
var suitesOf13 = []string{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}

// checkSuites refuses lists that leave out what is offered in any case.
func checkSuites(list string) error {
	if list == "" {
		return nil
	}
	given := strings.FieldsFunc(list, func(r rune) bool { return r == ':' || r == ',' || r == ' ' })
	for _, name := range suitesOf13 {
		if !slices.Contains(given, name) {
			return &Error{"Failed to configure ciphersuites: " + list, fmt.Errorf("with TLS 1.3 all of %s are offered; name them all, or take it out of tls-protocols",
				strings.Join(suitesOf13, ":"))}
		}
	}
	return nil
}
