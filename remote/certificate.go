package remote

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// SelfSigned makes a certificate for names and addresses, good for a year, and
// returns it with its key, both PEM. The key is for its owner alone; clients are
// given the Fingerprint.
func SelfSigned(names ...string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "wsctl"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

// ServerTLS is TLS for Server.Listen with a certificate and its key, both PEM.
// With clients, PEM certificates of authorities or of clients themselves, only
// who has a certificate of theirs may connect at all; a token is still needed.
func ServerTLS(certificate, key, clients []byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "listen", "", "the certificate and its key do not go together: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}}
	if clients != nil {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(clients) {
			return nil, workspace.Errorf(workspace.ErrInvalidArgument, "listen", "", "there is no certificate among those of the clients")
		}
	}
	return c, nil
}

// Fingerprint is the SHA-256 of a PEM certificate, in hexadecimal.
func Fingerprint(certificate []byte) (string, error) {
	block, _ := pem.Decode(certificate)
	if block == nil || block.Type != "CERTIFICATE" {
		return "", workspace.Errorf(workspace.ErrInvalidArgument, "tls", "", "this is no PEM certificate")
	}
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:]), nil
}

var errFingerprint = errors.New("the server's certificate is not the one that is trusted")

// Pinned is TLS for DialOptions that trusts the server whose certificate has
// that fingerprint, and no other, whatever it calls itself.
func Pinned(fingerprint string) (*tls.Config, error) {
	want, err := hex.DecodeString(fingerprint)
	if err != nil || len(want) != sha256.Size {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "tls", "", "a fingerprint is a SHA-256 in hexadecimal")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// The usual check is replaced by a narrower one.
		InsecureSkipVerify: true, //nolint:gosec // see VerifyConnection
		VerifyConnection: func(s tls.ConnectionState) error {
			sum := sha256.Sum256(s.PeerCertificates[0].Raw)
			if !bytes.Equal(sum[:], want) {
				return errFingerprint
			}
			return nil
		},
	}, nil
}
