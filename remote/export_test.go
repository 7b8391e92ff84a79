package remote

// NarrowRaw appends a block of any bytes to a token, as whoever holds it can.
func NarrowRaw(t Token, block []byte) Token {
	p, err := parseToken(t)
	if err != nil {
		return ""
	}
	p.blocks = append(p.blocks, block)
	p.signature = sign(p.signature, block)
	return p.token()
}
