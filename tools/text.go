package tools

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// valid returns b as UTF-8, each byte that is none as U+FFFD, and how many
// those are.
func valid(b []byte) (s string, replaced int) {
	if utf8.Valid(b) {
		return string(b), 0
	}
	var out strings.Builder
	out.Grow(len(b) + 16)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			replaced++
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String(), replaced
}

// saidReplaced is what a text says of bytes that valid replaced; empty: none.
func saidReplaced(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 byte is not UTF-8 and shown as U+FFFD"
	}
	return fmt.Sprintf("%d bytes are not UTF-8 and shown as U+FFFD", n)
}

// clip cuts s to at most n bytes, between characters, and says so.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n-unfinished([]byte(s[:n]))] + "…"
}

// unfinished is how many bytes at the end of b begin a character that is not
// complete.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if !utf8.RuneStart(b[len(b)-n]) {
			continue
		}
		if utf8.FullRune(b[len(b)-n:]) {
			return 0
		}
		return n
	}
	return 0
}

// count is "1 line" or "n lines", "1 entry" or "n entries".
func count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	switch stem, y := strings.CutSuffix(noun, "y"); {
	case y:
		noun = stem + "ie"
	case strings.HasSuffix(noun, "s"):
		noun += "e"
	}
	if stem, ok := strings.CutSuffix(noun, "ry"); ok {
		noun = stem + "rie"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
