package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"
)

// hostile is what drives a terminal, with what a person is shown instead.
var hostile = []struct{ name, text, shown string }{
	{"colour", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
	{"cursor", "a\x1b[2Ab\x1b[K", `a\x1b[2Ab\x1b[K`},
	{"link", "\x1b]8;;http://x\x07y\x1b]8;;\x07", `\x1b]8;;http://x\x07y\x1b]8;;\x07`},
	{"clipboard", "\x1b]52;c;Zm9v\x1b\\", `\x1b]52;c;Zm9v\x1b\`},
	{"title", "\x1b]0;title\x07", `\x1b]0;title\x07`},
	{"alternate screen", "\x1b[?1049h", `\x1b[?1049h`},
	{"report", "\x1b[6n\x1b[c", `\x1b[6n\x1b[c`},
	{"bell and backspace", "a\x07b\bc", `a\x07b\x08c`},
	{"carriage return", "evil\rgood\n", "evil\\x0dgood\n"},
	{"line ends", "a\r\nb\n\tc", "a\r\nb\n\tc"},
	{"carriage return at the end", "a\r", `a\x0d`},
	{"8-bit controls", "\u009b31m\u0090", `\u009b31m\u0090`},
	{"raw 8-bit bytes", "\x9b31m\xff", `\x9b31m\xff`},
	{"direction", "a\u202eb\u2066c", `a\u202eb\u2066c`},
	{"delete", "a\x7fb", `a\x7fb`},
	{"separators", "a\u2028b", `a\u2028b`},
	{"tags", "a\U000e0041", `a\U000e0041`},
	{"half a character", "a\xe2\x82", `a\xe2\x82`},
	{"text", "Grüße, 世界 👩\u200d💻 a\u00a0b\u3000c\n", "Grüße, 世界 👩\u200d💻 a\u00a0b\u3000c\n"},
}

func TestPlainWriterShowsWhatWouldDriveTheTerminal(t *testing.T) {
	for _, c := range hostile {
		// Whole, and cut at every byte.
		for cut := range len(c.text) + 1 {
			var b bytes.Buffer
			w := &plainWriter{to: &b}
			for _, part := range []string{c.text[:cut], c.text[cut:]} {
				if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
					t.Fatalf("%s: Write: %d, %v", c.name, n, err)
				}
			}
			w.flush()
			if b.String() != c.shown {
				t.Errorf("%s cut at %d: %q, want %q", c.name, cut, b.String(), c.shown)
			}
		}
	}
}

func TestPlainWriterKeepsNoReferenceToTheCallersBytes(t *testing.T) {
	var b bytes.Buffer
	w := &plainWriter{to: &b}
	p := []byte("\xe2\x82")
	_, _ = w.Write(p)
	p[0], p[1] = 'x', 'x'
	_, _ = w.Write([]byte("\xac"))
	if b.String() != "€" {
		t.Errorf("got %q", b.String())
	}
}

func TestEscapedJSONIsTheSameAndDrivesNoTerminal(t *testing.T) {
	for _, c := range hostile {
		valid, _ := text([]byte(c.text))
		raw, err := json.Marshal(valid)
		if err != nil {
			t.Fatal(err)
		}
		escaped := escapeJSON(raw)
		var back string
		if err := json.Unmarshal(escaped, &back); err != nil || back != valid {
			t.Errorf("%s: %q, %v; want %q", c.name, back, err, valid)
		}
		for _, r := range string(escaped) {
			if !unicode.IsGraphic(r) {
				t.Errorf("%s: %q is left in %s", c.name, r, escaped)
			}
		}
	}
}

func TestFailureIsOneLine(t *testing.T) {
	for _, c := range hostile {
		line := escapeLine(c.text)
		for _, r := range line {
			if r == '\n' || r == '\t' || r == '\r' || !unicode.IsGraphic(r) && r != '\u200d' {
				t.Errorf("%s: %q is left in %q", c.name, r, line)
			}
		}
	}
}
