//go:build linux

package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
)

// Sum names an object: the SHA-256 of its content.
type Sum [sha256.Size]byte

func (s Sum) String() string { return hex.EncodeToString(s[:]) }

func sumOf(b []byte) Sum { return sha256.Sum256(b) }

// parseSum reads what String writes.
func parseSum(text string) (s Sum, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(s) {
		return s, errListing()
	}
	copy(s[:], b)
	return s, nil
}
