//go:build unix

package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"time"

	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// The files of the server's own certificate.
const (
	certificateFile    = "tls.crt"
	certificateKeyFile = "tls.key"
)

// renewBefore is how long before its end a certificate is replaced.
const renewBefore = 30 * 24 * time.Hour

// ownCertificate is the certificate that the server has made itself, with its key.
// A new one is made when there is none, when its time is up, and when it is not
// good for all names: clients then need the new fingerprint.
func ownCertificate(ctx context.Context, dir privateDir, names []string) (certificate, key []byte, err error) {
	certificate, err = dir.read(ctx, certificateFile)
	if err == nil {
		key, err = dir.read(ctx, certificateKeyFile)
	}
	if err == nil && good(certificate, names) {
		return certificate, key, nil
	}
	if err != nil && !errors.Is(err, workspace.ErrNotFound) {
		return nil, nil, err
	}
	if certificate, key, err = remote.SelfSigned(names...); err != nil {
		return nil, nil, workspace.Errorf(workspace.ErrIO, "listen", "", "%w", err)
	}
	// The certificate last: with the key of another it would be no good.
	if err := dir.write(ctx, certificateKeyFile, key); err != nil {
		return nil, nil, err
	}
	return certificate, key, dir.write(ctx, certificateFile, certificate)
}

func good(certificate []byte, names []string) bool {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return false
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil || time.Until(c.NotAfter) < renewBefore {
		return false
	}
	for _, name := range names {
		if c.VerifyHostname(name) != nil {
			return false
		}
	}
	return true
}
