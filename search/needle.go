package search

import "bytes"

// needle is a text that must be in whatever matches. It is found by its rarest
// byte.
type needle struct {
	text []byte
	fold bool // text is in lower case and any case of ASCII matches
	rare int  // where the rarest byte is
}

func newNeedle(text string, fold bool) needle {
	n := needle{text: []byte(text), fold: fold}
	if fold {
		n.text = bytes.ToLower(n.text)
	}
	for i, c := range n.text {
		if rarity(c) > rarity(n.text[n.rare]) {
			n.rare = i
		}
	}
	return n
}

// common are the bytes of source text, the most common first.
const common = " etaoinrsl\tcd\nupmfhg.b,()\"y/0_vk1w=:x2-'*T{}3S;IEACR4[]8q5PLNjDFOM#+B<>6zGU7!&V9WHX@\\|?"

// rarities holds for each byte how rare it is, 0 to 255.
var rarities = func() (r [256]uint8) {
	for c := range r {
		r[c] = 255
	}
	for i, c := range []byte(common) {
		r[c] = uint8(i)
	}
	return r
}()

func rarity(c byte) int { return int(rarities[c]) }

// cursor goes through a text from one place of a needle to the next.
type cursor struct {
	*needle
	at int // the last place found; the length of the text: there is none
	// lower and upper are the next places of the rarest byte, in either
	// case, that have not been looked at.
	lower, upper int
	begun        bool
}

// next is the first place of the needle at or behind from, or len(b). from never
// goes back.
func (c *cursor) next(b []byte, from int) int {
	if c.begun && c.at >= from {
		return c.at
	}
	if c.fold {
		c.at = c.nextFolded(b, from)
	} else {
		c.at = c.nextExact(b, from)
	}
	c.begun = true
	return c.at
}

func (c *cursor) nextExact(b []byte, from int) int {
	rare := c.text[c.rare]
	for i, misses := from+c.rare, 0; i < len(b); misses++ {
		if misses >= 32 && i-from < 16*misses {
			// The byte is not rare here.
			if k := bytes.Index(b[i-c.rare:], c.text); k >= 0 {
				return i - c.rare + k
			}
			break
		}
		k := bytes.IndexByte(b[i:], rare)
		if k < 0 {
			break
		}
		begin := i + k - c.rare
		if end := begin + len(c.text); end <= len(b) && string(b[begin:end]) == string(c.text) {
			return begin
		}
		i += k + 1
	}
	return len(b)
}

func (c *cursor) nextFolded(b []byte, from int) int {
	low := c.text[c.rare]
	up := upper(low)
	if !c.begun {
		c.lower, c.upper = -1, -1
	}
	for i := from + c.rare; i < len(b); {
		if c.lower < i {
			c.lower = indexFrom(b, i, low)
		}
		if c.upper < i {
			c.upper = len(b)
			if up != low {
				c.upper = indexFrom(b, i, up)
			}
		}
		i = min(c.lower, c.upper)
		begin := i - c.rare
		if end := begin + len(c.text); i < len(b) && end <= len(b) && equalFolded(b[begin:end], c.text) {
			return begin
		}
		i++
	}
	return len(b)
}

// indexFrom is the first place of c at or behind from, or len(b).
func indexFrom(b []byte, from int, c byte) int {
	if k := bytes.IndexByte(b[from:], c); k >= 0 {
		return from + k
	}
	return len(b)
}

// equalFolded compares with a text that is in lower case.
func equalFolded(b, lower []byte) bool {
	for i, c := range b {
		if c != lower[i] && (c < 'A' || c > 'Z' || c|0x20 != lower[i]) {
			return false
		}
	}
	return true
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

// cursors go through a text with several needles.
type cursors []cursor

func newCursors(needles []needle) cursors {
	c := make(cursors, len(needles))
	for i := range needles {
		c[i].needle = &needles[i]
	}
	return c
}

// restart begins another text.
func (c cursors) restart() {
	for i := range c {
		c[i].begun = false
	}
}

// next is the first place of any needle at or behind from, or len(b).
func (c cursors) next(b []byte, from int) int {
	at := len(b)
	for i := range c {
		at = min(at, c[i].next(b, from))
	}
	return at
}
