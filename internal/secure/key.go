package secure

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"strings"
)

var errPassphrase = errors.New("bad decrypt: the pass phrase (tls-key-file-pass) is wrong or missing")

// decrypted returns a private key's PEM text without encryption. Encrypted ones may have OpenSSL's
// old form (Proc-Type: 4,ENCRYPTED) or that of PKCS #8 (ENCRYPTED PRIVATE KEY).
func decrypted(text []byte, passphrase string) ([]byte, error) {
	for rest := text; ; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		switch {
		case block == nil:
			return text, nil // crypto/tls says what is wrong
		case block.Type == "ENCRYPTED PRIVATE KEY":
			plain, err := decryptPKCS8(block.Bytes, []byte(passphrase))
			return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: plain}), err
		case strings.HasSuffix(block.Type, "PRIVATE KEY") && strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
			//lint:ignore SA1019 the form has no integrity check; files that have it are read all the same, as by OpenSSL
			plain, err := x509.DecryptPEMBlock(block, []byte(passphrase))
			if errors.Is(err, x509.IncorrectPasswordError) {
				err = errPassphrase
			}
			return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: plain}), err
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return text, nil
		}
	}
}

// An encrypted PKCS #8 key (RFC 5958), with PBES2 (RFC 8018) as OpenSSL has written it since 1.0:
//
//	SEQUENCE { SEQUENCE { pbes2, SEQUENCE { SEQUENCE { pbkdf2, derivation }, SEQUENCE { cipher, OCTET STRING iv } } },
//	           OCTET STRING encrypted }
type encryptedKey struct {
	Algorithm struct {
		Scheme     asn1.ObjectIdentifier
		Parameters struct {
			Derivation struct {
				Function   asn1.ObjectIdentifier
				Parameters derivation
			}
			Cipher struct {
				Algorithm asn1.ObjectIdentifier
				IV        []byte
			}
		}
	}
	Encrypted []byte
}

// derivation is PBKDF2's parameters.
type derivation struct {
	Salt       []byte
	Iterations int
	Length     int                      `asn1:"optional"`
	Hash       pkix.AlgorithmIdentifier `asn1:"optional"` // HMAC with SHA-1 unless given
}

var (
	pbes2          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	pbkdf2Function = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
)

// keyHashes are those that PBKDF2 may use, by the names of their HMACs.
var keyHashes = map[string]func() hash.Hash{
	"":                    sha1.New,
	"1.2.840.113549.2.7":  sha1.New,
	"1.2.840.113549.2.8":  sha256.New224,
	"1.2.840.113549.2.9":  sha256.New,
	"1.2.840.113549.2.10": sha512.New384,
	"1.2.840.113549.2.11": sha512.New,
}

// keyCipher is a block cipher in CBC mode.
type keyCipher struct {
	length int // of the key
	make   func(key []byte) (cipher.Block, error)
}

var keyCiphers = map[string]keyCipher{
	"2.16.840.1.101.3.4.1.2":  {16, aes.NewCipher},
	"2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
	"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
	"1.2.840.113549.3.7":      {24, des.NewTripleDESCipher},
}

// decryptPKCS8 returns the key in PKCS #8's plain form.
func decryptPKCS8(encoded, passphrase []byte) ([]byte, error) {
	var key encryptedKey
	if _, err := asn1.Unmarshal(encoded, &key); err != nil || !key.Algorithm.Scheme.Equal(pbes2) ||
		!key.Algorithm.Parameters.Derivation.Function.Equal(pbkdf2Function) {
		return nil, errors.New("encrypted in another way than PBES2 with PBKDF2; openssl pkcs8 -topk8 -v2 aes-256-cbc writes that")
	}
	parameters := key.Algorithm.Parameters
	from, by := parameters.Derivation.Parameters, parameters.Cipher
	newHash, known := keyHashes[from.Hash.Algorithm.String()]
	block, usable := keyCiphers[by.Algorithm.String()]
	if !known || !usable {
		return nil, fmt.Errorf("encrypted by an algorithm that is unknown here (%s, %s)", from.Hash.Algorithm, by.Algorithm)
	}
	secret, err := pbkdf2.Key(newHash, string(passphrase), from.Salt, from.Iterations, block.length)
	if err != nil {
		return nil, err
	}
	cipherBlock, err := block.make(secret)
	if err != nil {
		return nil, err
	}
	size := cipherBlock.BlockSize()
	if len(by.IV) != size || len(key.Encrypted) == 0 || len(key.Encrypted)%size != 0 {
		return nil, errors.New("the encrypted key is damaged")
	}
	plain := make([]byte, len(key.Encrypted))
	cipher.NewCBCDecrypter(cipherBlock, by.IV).CryptBlocks(plain, key.Encrypted)
	plain, ok := withoutPadding(plain, size)
	if !ok {
		return nil, errPassphrase
	}
	if _, err := x509.ParsePKCS8PrivateKey(plain); err != nil {
		return nil, errPassphrase // one in 256 wrong ones leaves a good padding
	}
	return plain, nil
}

// withoutPadding removes what fills the last block: n bytes of the value n.
func withoutPadding(b []byte, size int) ([]byte, bool) {
	n := int(b[len(b)-1])
	if n == 0 || n > size || !bytes.Equal(b[len(b)-n:], bytes.Repeat([]byte{byte(n)}, n)) {
		return nil, false
	}
	return b[:len(b)-n], true
}
