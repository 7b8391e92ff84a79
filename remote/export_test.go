package remote

import (
	"encoding/json"
	"testing"
)

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

// TextThereAndBack sends a string of any bytes through JSON.
func TextThereAndBack(t testing.TB, s string) string {
	data, err := json.Marshal(text(s))
	if err != nil {
		t.Fatal(err)
	}
	var back text
	if err := decodeStrict(data, &back); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return string(back)
}
