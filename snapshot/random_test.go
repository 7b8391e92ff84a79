//go:build linux

package snapshot_test

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math/rand/v2"
)

// random are bytes that nothing compresses.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// checksumText ends the name of a temporary file.
func checksumText(b []byte) string {
	return hex.EncodeToString(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(b)))
}
