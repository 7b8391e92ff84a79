package search

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/wsctl/wsctl/workspace"
)

// binaryHead is how many bytes at the begin of a file tell whether it is binary,
// as in git: a NUL among them says so.
const binaryHead = 8000

func isBinary(head []byte) bool {
	return bytes.IndexByte(head[:min(len(head), binaryHead)], 0) >= 0
}

// Byte order marks (Unicode, section 23.8).
const (
	bom8    = "\xef\xbb\xbf"
	bom16le = "\xff\xfe"
	bom16be = "\xfe\xff"
)

// encodingOf reads a byte order mark: how long it is, and the name of an
// encoding that must be decoded.
func encodingOf(head []byte) (mark int, encoding string) {
	if len(head) < 2 {
		return 0, ""
	}
	switch head[0] {
	case bom8[0]:
		if bytes.HasPrefix(head, []byte(bom8)) {
			return len(bom8), ""
		}
	case bom16le[0]:
		if head[1] == bom16le[1] {
			return len(bom16le), "utf-16le"
		}
	case bom16be[0]:
		if head[1] == bom16be[1] {
			return len(bom16be), "utf-16be"
		}
	}
	return 0, ""
}

// decode turns UTF-16 into UTF-8. Half a pair, and half a unit at the end, become
// U+FFFD.
func decode(text []byte, encoding string) []byte {
	var order binary.ByteOrder = binary.LittleEndian
	if encoding == "utf-16be" {
		order = binary.BigEndian
	}
	out := make([]byte, 0, len(text)/2+len(text)/8)
	for len(text) >= 2 {
		c := rune(order.Uint16(text))
		text = text[2:]
		if utf16.IsSurrogate(c) {
			pair := rune(utf8.RuneError)
			if len(text) >= 2 {
				pair = utf16.DecodeRune(c, rune(order.Uint16(text)))
			}
			if pair != utf8.RuneError {
				text = text[2:]
			}
			c = pair
		}
		out = utf8.AppendRune(out, c)
	}
	if len(text) > 0 {
		out = utf8.AppendRune(out, utf8.RuneError)
	}
	return out
}

// readAll reads what is left of a file of at most limit bytes.
func readAll(ctx context.Context, r io.Reader, limit int) ([]byte, error) {
	var b bytes.Buffer
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := io.CopyN(&b, r, 1<<20)
		if b.Len() > limit {
			return nil, workspace.Errorf(workspace.ErrTooLarge, "read", "", "it is longer than %d bytes", limit)
		}
		if err == io.EOF || (err == nil && n == 0) {
			return b.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
	}
}
