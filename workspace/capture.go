package workspace

import "unicode/utf8"

// capture keeps the first and the last bytes of a stream, half of its limit
// each, in memory bounded by the limit whatever the stream's length.
type capture struct {
	limit int
	head  []byte
	// tail is a ring once it is full: the oldest byte is at next.
	tail  []byte
	next  int
	total int64
}

// add takes the next bytes of the stream.
func (c *capture) add(p []byte) {
	c.total += int64(len(p))
	headRoom := c.limit - c.limit/2 - len(c.head)
	if headRoom > 0 {
		n := min(headRoom, len(p))
		c.head = append(c.head, p[:n]...)
		p = p[n:]
	}
	size := c.limit / 2
	if size == 0 || len(p) == 0 {
		return
	}
	if len(p) > size {
		p = p[len(p)-size:]
	}
	if room := size - len(c.tail); room > 0 {
		n := min(room, len(p))
		c.tail = append(c.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(c.tail[c.next:], p)
		c.next = (c.next + n) % size
		p = p[n:]
	}
}

// result returns what was kept. Where the middle is missing both edges of the
// gap lie between characters, as far as the stream is UTF-8.
func (c *capture) result() ([]byte, Dropped) {
	tail := make([]byte, 0, len(c.tail))
	tail = append(append(tail, c.tail[c.next:]...), c.tail[:c.next]...)
	if int64(len(c.head)+len(tail)) == c.total {
		return append(c.head[:len(c.head):len(c.head)], tail...), Dropped{}
	}
	head := c.head[:len(c.head)-partialEnd(c.head)]
	tail = tail[partialStart(tail):]
	kept := append(head[:len(head):len(head)], tail...)
	return kept, Dropped{Bytes: c.total - int64(len(kept)), Offset: len(head)}
}

// partialEnd returns how many bytes at the end of b begin a character that is
// not complete.
func partialEnd(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// partialStart returns how many bytes at the start of b end a character whose
// beginning is missing.
func partialStart(b []byte) int {
	for n := 0; n < utf8.UTFMax && n < len(b); n++ {
		if utf8.RuneStart(b[n]) {
			return n
		}
	}
	return 0
}
