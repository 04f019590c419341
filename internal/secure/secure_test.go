package secure

import (
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kedis/redis-tests/certificates"
)

func identity(c certificates.Certificate) Identity {
	return Identity{Certificate: c.File, Key: c.Key}
}

// TestMistakes compares with the texts of Redis 7.0's log.
func TestMistakes(t *testing.T) {
	authority := certificates.NewAuthority(t)
	own, other := authority.Sign("a"), authority.Sign("b")
	good := Settings{Server: identity(own), Trust: Trust{File: authority.File}, ClientCertificates: Required}
	for name, test := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"no certificate":        {func(s *Settings) { s.Server.Certificate = "" }, "No tls-cert-file configured!"},
		"no key":                {func(s *Settings) { s.Server.Key = "" }, "No tls-key-file configured!"},
		"no authority":          {func(s *Settings) { s.Trust = Trust{} }, "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when"},
		"missing certificate":   {func(s *Settings) { s.Server.Certificate = "/none" }, "Failed to load certificate: /none: no such file"},
		"a key as certificate":  {func(s *Settings) { s.Server.Certificate = own.Key }, "Failed to load certificate: "},
		"another's key":         {func(s *Settings) { s.Server.Key = other.Key }, "Failed to load private key: " + other.Key},
		"a certificate as key":  {func(s *Settings) { s.Server.Key = own.File }, "Failed to load private key: "},
		"missing authority":     {func(s *Settings) { s.Trust.File = "/none" }, "Failed to configure CA certificate(s) file/directory: /none"},
		"missing authorities":   {func(s *Settings) { s.Trust.Directory = "/none" }, "Failed to configure CA certificate(s) file/directory: /none"},
		"unknown protocol":      {func(s *Settings) { s.Protocols = "TLSv1.2 SSLv3" }, "Invalid tls-protocols specified. Use a combination of"},
		"protocols with a gap":  {func(s *Settings) { s.Protocols = "TLSv1.1 TLSv1.3" }, "Invalid tls-protocols specified. Versions between"},
		"unknown ciphers":       {func(s *Settings) { s.Ciphers = "foo:bar" }, "Failed to configure ciphers: foo:bar"},
		"all ciphers banned":    {func(s *Settings) { s.Ciphers = "ALL:!AES:!CHACHA20" }, "Failed to configure ciphers: "},
		"some suites of TLS1.3": {func(s *Settings) { s.Suites = "TLS_AES_256_GCM_SHA384" }, "Failed to configure ciphersuites: TLS_AES_256_GCM_SHA384: with TLS 1.3 all of"},
	} {
		s := good
		test.change(&s)
		if _, err := s.ServerConfig(); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*Settings){
		"as it is":   func(*Settings) {},
		"no clients": func(s *Settings) { s.Trust, s.ClientCertificates = Trust{}, NotAsked },
		"directory":  func(s *Settings) { s.Trust = Trust{Directory: filepath.Dir(authority.File)} },
		"protocols":  func(s *Settings) { s.Protocols = "tlsv1.2  TLSv1.3" },
		"suites":     func(s *Settings) { s.Suites = strings.Join(suitesOf13, ":") },
	} {
		s := good
		change(&s)
		if _, err := s.ServerConfig(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProtocols(t *testing.T) {
	for text, want := range map[string][2]uint16{
		"": {tls.VersionTLS12, tls.VersionTLS13}, "TLSv1.3": {tls.VersionTLS13, tls.VersionTLS13},
		"TLSv1 tlsv1.1 TLSV1.2": {tls.VersionTLS10, tls.VersionTLS12},
	} {
		least, most, err := protocols(text)
		if err != nil || [2]uint16{least, most} != want {
			t.Errorf("%q: %x to %x, %v", text, least, most, err)
		}
	}
}

// TestCiphers holds lists against what OpenSSL makes of them, as far as crypto/tls has it. Suites
// that Debian's OpenSSL is built without (RC4, 3DES) are left out.
func TestCiphers(t *testing.T) {
	have := map[string]uint16{}
	for _, s := range suites() {
		if !slices.Contains(s.words, "MEDIUM") {
			have[s.words[slices.IndexFunc(s.words, func(w string) bool { return strings.HasPrefix(w, "TLS_") })]] = s.id
		}
	}
	for _, list := range []string{"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE+AESGCM", "AES256+kRSA", "ALL:!SHA1", "HIGH:!kRSA:!SHA256", "ECDHE+aECDSA:AES128-SHA",
		"CHACHA20,AES256-GCM-SHA384", "ECDHE:-AES128:foo", "kEECDH+AES256:@STRENGTH"} {
		output, err := exec.Command("openssl", "ciphers", "-stdname", "-s", "-tls1_2", list+":@SECLEVEL=0").Output()
		if err != nil {
			t.Fatalf("openssl ciphers %s: %v", list, err)
		}
		var want []uint16
		for line := range strings.Lines(string(output)) {
			if id, ok := have[strings.Fields(line)[0]]; ok {
				want = append(want, id)
			}
		}
		got, err := ciphers(list)
		got = slices.DeleteFunc(got, func(id uint16) bool {
			return strings.Contains(tls.CipherSuiteName(id), "RC4") || strings.Contains(tls.CipherSuiteName(id), "3DES")
		})
		slices.Sort(got)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%s: %x, OpenSSL has %x; %v", list, got, want, err)
		}
	}
}

// TestEncryptedKeys reads keys that openssl has written, in all forms that are read, and refuses a
// wrong pass phrase.
func TestEncryptedKeys(t *testing.T) {
	directory := t.TempDir()
	openssl := func(arguments ...string) {
		t.Helper()
		if output, err := exec.Command("openssl", arguments...).CombinedOutput(); err != nil {
			t.Fatalf("openssl %s: %v\n%s", arguments, err, output)
		}
	}
	for kind, generate := range map[string][]string{
		"rsa": {"genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"},
		"ec":  {"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"},
	} {
		plain, certificate := filepath.Join(directory, kind+".key"), filepath.Join(directory, kind+".crt")
		openssl(append(generate, "-out", plain)...)
		openssl("req", "-x509", "-key", plain, "-out", certificate, "-subj", "/CN=a", "-days", "2")
		for form, arguments := range map[string][]string{
			"aes256":        {"pkcs8", "-topk8", "-v2", "aes-256-cbc"},
			"aes128, sha1":  {"pkcs8", "-topk8", "-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA1"},
			"aes192, 512":   {"pkcs8", "-topk8", "-v2", "aes-192-cbc", "-v2prf", "hmacWithSHA512"},
			"des3":          {"pkcs8", "-topk8", "-v2", "des3"},
			"old, aes256":   {kind, "-aes256", "-traditional"},
			"old, des3":     {kind, "-des3", "-traditional"},
			"not encrypted": {"pkcs8", "-topk8", "-nocrypt"},
		} {
			if kind == "ec" {
				arguments = slices.DeleteFunc(slices.Clone(arguments), func(a string) bool { return a == "-traditional" })
			}
			key := filepath.Join(directory, "encrypted.key")
			openssl(append(arguments, "-in", plain, "-out", key, "-passout", "pass:secret")...)
			own := Identity{certificate, key, "secret"}
			if _, err := own.load(); err != nil {
				t.Errorf("%s, %s: %v", kind, form, err)
			}
			own.Passphrase = "wrong"
			if _, err := own.load(); (err == nil) != (form == "not encrypted") {
				t.Errorf("%s, %s: with a wrong pass phrase: %v", kind, form, err)
			}
		}
	}
}

// TestDamagedKeys mutates an encrypted key: whatever is in the file, it is an error and no panic.
func TestDamagedKeys(t *testing.T) {
	const encoded = "3081ec305706092a864886f70d01050d304a302906092a864886f70d01050c301c0408" + "0102030405060708" +
		"02020800300c06082a864886f70d02090500301d060960864801650304012a0410" + "000102030405060708090a0b0c0d0e0f" + "048190"
	whole, err := hex.DecodeString(encoded + strings.Repeat("ab", 0x90))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decryptPKCS8(whole, []byte("x")); err != errPassphrase {
		t.Fatalf("the one to damage: %v", err)
	}
	for i := range whole {
		for _, bit := range []byte{1, 0x80, 0xff} {
			damaged := slices.Clone(whole)
			damaged[i] ^= bit
			if i >= 40 && i < 46 { // the number of rounds, which may be large
				continue
			}
			if _, err := decryptPKCS8(damaged, []byte("x")); err == nil {
				t.Errorf("byte %d changed by %x: no error", i, bit)
			}
		}
		if _, err := decrypted(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: whole[:i]}), "x"); err == nil {
			t.Errorf("%d bytes: no error", i)
		}
	}
}

// TestKeeper keeps what is in force when a load fails.
func TestKeeper(t *testing.T) {
	authority := certificates.NewAuthority(t)
	own := authority.Sign("a")
	settings, on := Settings{Server: identity(own)}, false
	k := NewKeeper(func() (Settings, bool) { return settings, on })
	if err := k.Load(); err != nil || k.On() {
		t.Fatalf("without TLS: %v, %v", k.On(), err)
	}
	on = true
	if err := k.Load(); err != nil || k.Server() == nil {
		t.Fatalf("with TLS: %v", err)
	}
	if _, err := k.Client(); err != errNoClient {
		t.Fatalf("without an authority there is a client's configuration: %v", err)
	}
	settings.Trust.File = authority.File
	if err := k.Load(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Client(); err != nil {
		t.Fatal(err)
	}
	before := k.Server()
	if err := os.Remove(own.Key); err != nil {
		t.Fatal(err)
	}
	if err := k.Load(); err == nil || k.Server() != before {
		t.Fatalf("after a failed load: %v", err)
	}
}
