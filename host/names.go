//go:build unix

package host

import (
	"crypto/rand"
	"encoding/hex"
	"hash/crc32"
	"strings"
	"unicode"
	"unicode/utf8"
)

// spelled is a name taken apart as path_resolution(7) does it.
type spelled struct {
	parts []string // no empty ones, no "."
	// directory: it ends in a slash or in "."; what it leads to must be a
	// directory, and a last link is followed.
	directory bool
	// dot: it ends in ".", or is nothing but "." and slashes.
	dot bool
}

func split(name string) spelled {
	var s spelled
	last := ""
	for part := range strings.SplitSeq(name, "/") {
		last = part
		if part != "" && part != "." {
			s.parts = append(s.parts, part)
		}
	}
	s.directory = last == "" || last == "."
	s.dot = last == "." || len(s.parts) == 0
	return s
}

// climbs reports whether parts, read as text below a directory depth levels
// under the root, lead above the root.
func climbs(depth int, parts []string) bool {
	for _, part := range parts {
		if part == ".." {
			depth--
		} else {
			depth++
		}
		if depth < 0 {
			return true
		}
	}
	return false
}

// maxPath is the length that a path may have, PATH_MAX without its NUL.
const maxPath = 4095

// plain reports whether name can be handed to one openat2 call: its first part
// is not the state, and it has no "..", which is the one part whose meaning
// depends on more than the part before it.
func plain(name string) bool { return plainBelow(name, true) }

// plainBelow is plain below a directory, which is the root when top is set.
func plainBelow(name string, top bool) bool {
	if name == "" || name[0] == '/' || len(name) > maxPath || strings.IndexByte(name, 0) >= 0 {
		return false
	}
	first := true
	for len(name) > 0 {
		part := name
		if i := strings.IndexByte(name, '/'); i >= 0 {
			part, name = name[:i], name[i+1:]
		} else {
			name = ""
		}
		switch {
		case part == "..":
			return false
		case part == "" || part == ".":
		case first:
			if top && reserved(part) {
				return false
			}
			first = false
		}
	}
	return true
}

// splitPlain takes a plain name apart at its last slash, when its last part is
// a name and not "." or nothing. dir is empty for the root.
func splitPlain(name string) (dir, base string, ok bool) {
	if !plain(name) {
		return "", "", false
	}
	i := strings.LastIndexByte(name, '/')
	base = name[i+1:]
	if base == "" || base == "." {
		return "", "", false
	}
	if i > 0 {
		dir = name[:i]
	}
	return dir, base, true
}

// reserved reports whether a name at the top of the root is the state's, for
// any file system.
func reserved(part string) bool { return SameName(part, StateName) }

// SameName reports whether some file system takes part for name, which is a
// single lower-case ASCII name: case is folded, trailing dots and spaces fall
// away as on FAT and SMB, and code points that HFS+ and ext4 with casefold
// ignore do not count.
func SameName(part, name string) bool {
	if len(part) < len(name) {
		return false
	}
	if isASCII(part) {
		if part[0]|0x20 != name[0]|0x20 {
			return false
		}
		return strings.EqualFold(strings.TrimRight(part, ". "), name)
	}
	var b strings.Builder
	for _, c := range part {
		if !ignorable(c) {
			b.WriteRune(c)
		}
	}
	// EqualFold folds simply; that is how U+017F (long s) becomes "s".
	return strings.EqualFold(strings.TrimRight(b.String(), ". "), name)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// ignorable reports whether c has the property Default_Ignorable_Code_Point of
// Unicode (UAX #44), which case-folding file systems drop when they compare.
func ignorable(c rune) bool {
	switch {
	case unicode.Is(unicode.Cf, c), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c),
		unicode.Is(unicode.Variation_Selector, c):
		return true
	}
	return false
}

// A temporary file of ours is named so that nobody else's file is taken for
// it: 128 random bits and their checksum.
const (
	tempPrefix = ".wsctl-tmp-"
	tempRandom = 16
	tempLength = len(tempPrefix) + 2*(tempRandom+crc32.Size)
)

// tempName makes a name for a temporary file.
func tempName() string {
	var b [tempRandom + crc32.Size]byte
	rand.Read(b[:tempRandom])
	sum := crc32.ChecksumIEEE(b[:tempRandom])
	for i := range crc32.Size {
		b[tempRandom+i] = byte(sum >> (8 * i))
	}
	return tempPrefix + hex.EncodeToString(b[:])
}

// isTemp reports whether a name was made by tempName.
func isTemp[S string | []byte](name S) bool {
	if len(name) != tempLength || string(name[:len(tempPrefix)]) != tempPrefix {
		return false
	}
	var b [tempRandom + crc32.Size]byte
	if _, err := hex.Decode(b[:], []byte(name[len(tempPrefix):])); err != nil {
		return false
	}
	sum := crc32.ChecksumIEEE(b[:tempRandom])
	for i := range crc32.Size {
		if b[tempRandom+i] != byte(sum>>(8*i)) {
			return false
		}
	}
	return true
}
