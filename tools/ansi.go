package tools

// withoutANSI is b without the escape sequences of ECMA-48 (CSI, OSC and the
// other strings, two-character escapes), in their seven-bit forms and, for CSI,
// as the character U+009B. A string that does not end is left out up to the end
// of its line, so that it hides no more than that.
func withoutANSI(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		n := ansiLength(b[i:])
		if n == 0 {
			out = append(out, b[i])
			n = 1
		}
		i += n
	}
	return out
}

// ansiLength is the length of the escape sequence that b begins with; 0: none.
func ansiLength(b []byte) int {
	const esc = 0x1b
	if len(b) >= 2 && b[0] == 0xc2 && b[1] == 0x9b {
		return csiLength(b, 2)
	}
	if b[0] != esc {
		return 0
	}
	if len(b) == 1 {
		return 1
	}
	switch b[1] {
	case '[':
		return csiLength(b, 2)
	case ']', 'P', 'X', '^', '_':
		for i := 2; i < len(b); i++ {
			switch {
			case b[i] == '\a':
				return i + 1
			case b[i] == esc && i+1 < len(b) && b[i+1] == '\\':
				return i + 2
			case b[i] == '\n':
				return i
			}
		}
		return len(b)
	}
	// Intermediate bytes and a final one, as in "ESC ( B".
	i := 1
	for i < len(b) && b[i] >= 0x20 && b[i] <= 0x2f {
		i++
	}
	if i < len(b) && b[i] >= 0x30 && b[i] <= 0x7e {
		return i + 1
	}
	return i
}

// csiLength is the length of a control sequence whose parameters begin at i.
func csiLength(b []byte, i int) int {
	for i < len(b) && b[i] >= 0x20 && b[i] <= 0x3f {
		i++
	}
	if i < len(b) && b[i] >= 0x40 && b[i] <= 0x7e {
		i++
	}
	return i
}
