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

// signer signs with an ECDSA key on P-256 or a larger curve, like cosign.
type signer struct {
	private *ecdsa.PrivateKey // nil if only the public key is known
	public  *ecdsa.PublicKey
}

var errSignature = errors.New("the signature is not that of the key")

// privateKey reads a key in PEM: PKCS #8, or the output of openssl ecparam.
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

// Sign returns the signature of content.
func (s *signer) Sign(_ context.Context, content []byte) ([]byte, error) {
	digest := sha256.Sum256(content)
	return ecdsa.SignASN1(rand.Reader, s.private, digest[:])
}

// Verify returns nil if signature is the key's signature of content.
func (s *signer) Verify(_ context.Context, content, signature []byte) error {
	digest := sha256.Sum256(content)
	if !ecdsa.VerifyASN1(s.public, digest[:], signature) {
		return errSignature
	}
	return nil
}

// KeyID is the id of the key in an envelope.
func (s *signer) KeyID() (string, error) { return dsse.SHA256KeyID(s.public) }

// Public is the public key.
func (s *signer) Public() crypto.PublicKey { return s.public }

// detached returns a signature in the format of cosign.
func (s *signer) detached(ctx context.Context, content []byte) ([]byte, error) {
	signature, err := s.Sign(ctx, content)
	return []byte(base64.StdEncoding.EncodeToString(signature) + "\n"), err
}
