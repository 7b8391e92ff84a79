package main

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// plainWriter passes on what a person can read and shows everything else as an
// escape: what a command prints without a terminal of its own must not move
// the cursor, set the clipboard or ask the terminal for an answer. Line feeds,
// tabs and carriage returns before a line feed pass. It is for a terminal
// only; a file or a pipe gets the bytes as they are.
type plainWriter struct {
	to io.Writer
	// held is the start of a character, or a carriage return, of which the
	// next write tells more.
	held []byte
	buf  bytes.Buffer
}

func (w *plainWriter) Write(p []byte) (int, error) {
	w.buf.Reset()
	text := p
	if len(w.held) > 0 {
		text = append(w.held, p...)
		w.held = nil
	}
	for len(text) > 0 {
		if !utf8.FullRune(text) || (len(text) == 1 && text[0] == '\r') {
			w.held = append([]byte(nil), text...)
			break
		}
		r, n := utf8.DecodeRune(text)
		w.put(r, text[:n], text[n:])
		text = text[n:]
	}
	_, err := w.to.Write(w.buf.Bytes())
	return len(p), err
}

// flush shows what was held back; nothing is written after it.
func (w *plainWriter) flush() {
	w.buf.Reset()
	for _, b := range w.held {
		fmt.Fprintf(&w.buf, `\x%02x`, b)
	}
	w.held = nil
	// Nobody is left to tell.
	_, _ = w.to.Write(w.buf.Bytes())
}

// put adds one character, spelled raw, as it may be shown. after is what
// follows it.
func (w *plainWriter) put(r rune, raw, after []byte) {
	const joiner, nonJoiner = '\u200d', '\u200c'
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		fmt.Fprintf(&w.buf, `\x%02x`, raw[0])
	case r == '\n', r == '\t', r == joiner, r == nonJoiner, unicode.IsGraphic(r):
		w.buf.Write(raw)
	case r == '\r' && len(after) > 0 && after[0] == '\n':
		w.buf.Write(raw)
	case r < utf8.RuneSelf:
		fmt.Fprintf(&w.buf, `\x%02x`, r)
	case r <= 0xffff:
		fmt.Fprintf(&w.buf, `\u%04x`, r)
	default:
		fmt.Fprintf(&w.buf, `\U%08x`, r)
	}
}

// escapeJSON replaces, in JSON text, the characters that encoding/json leaves
// as they are and a terminal would act on. It is the same JSON.
func escapeJSON(text []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case r < utf8.RuneSelf && r != 0x7f, unicode.IsGraphic(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			// A surrogate pair, RFC 8259 section 7.
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		}
	}
	return b.Bytes()
}
