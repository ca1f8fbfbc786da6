package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// signer signs with a key of the elliptic curve P-256 or larger, as cosign does.
type signer struct {
	private *ecdsa.PrivateKey // nil where there is only the public key
	public  *ecdsa.PublicKey
}

var errSignature = errors.New("the signature is not that of the key")

// privateKey reads a file in PEM form: PKCS #8, or what openssl ecparam writes.
func privateKey(file string) (*signer, error) {
	block, err := readPEM(file)
	if err != nil {
		return nil, err
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return &signer{key, &key.PublicKey}, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, is := parsed.(*ecdsa.PrivateKey)
	if err != nil || !is {
		return nil, fmt.Errorf("%s has no private key of an elliptic curve that can be read: an encrypted one has to be decrypted first", file)
	}
	return &signer{key, &key.PublicKey}, nil
}

func publicKey(file string) (*signer, error) {
	block, err := readPEM(file)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	key, is := parsed.(*ecdsa.PublicKey)
	if err != nil || !is {
		return nil, fmt.Errorf("%s has no public key of an elliptic curve", file)
	}
	return &signer{public: key}, nil
}

func readPEM(file string) (*pem.Block, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "EC PARAMETERS" {
			return block, nil
		}
	}
	return nil, fmt.Errorf("%s is not in PEM form", file)
}

// Sign returns the signature of a content.
func (s *signer) Sign(_ context.Context, content []byte) ([]byte, error) {
	digest := sha256.Sum256(content)
	return ecdsa.SignASN1(rand.Reader, s.private, digest[:])
}

// Verify is nil for a signature of the content by the key.
func (s *signer) Verify(_ context.Context, content, signature []byte) error {
	digest := sha256.Sum256(content)
	if !ecdsa.VerifyASN1(s.public, digest[:], signature) {
		return errSignature
	}
	return nil
}

// KeyID names the key in an envelope.
func (s *signer) KeyID() (string, error) { return dsse.SHA256KeyID(s.public) }

// Public is the key that verifies.
func (s *signer) Public() crypto.PublicKey { return s.public }

// detached is a signature as cosign writes it.
func (s *signer) detached(ctx context.Context, content []byte) ([]byte, error) {
	signature, err := s.Sign(ctx, content)
	return []byte(base64.StdEncoding.EncodeToString(signature) + "\n"), err
}
