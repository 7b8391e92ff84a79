// Package wrapper runs one command through a POSIX shell and tells, from the
// two output streams alone, when it started, when it ended and with what status.
//
// It knows no Docker. A caller starts [Command] as a process that leads its own
// session and group (as `docker exec` does), writes [Greeting], [Input] and then
// the command's own input to its stdin, and passes what comes back through a
// [Reader]. The markers on the streams are lines that carry a random token; a
// [Splitter] takes them out and leaves every other byte as it is.
package wrapper

import (
	_ "embed"
	"errors"
	"io"
	"strings"
)

//go:embed run.sh
var runScript string

// TokenLen is the length of a token in bytes: 128 random bits in lower-case hex.
const TokenLen = 32

// RecordSeparator is the byte that begins a marker: ASCII RS, rare in text.
const RecordSeparator = 0x1e

// MaxBody bounds a marker's body in bytes. With the token it stays below
// PIPE_BUF (4096 on Linux), so a marker is written to a pipe in one piece
// (pipe(7)).
const MaxBody = 1024

// NewToken reads a fresh token from random, which must be a cryptographic source.
func NewToken(random io.Reader) (string, error) {
	var raw [TokenLen / 2]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", err
	}
	// By hand: encoding/hex would bring fmt into the keeper's binary.
	const digits = "0123456789abcdef"
	token := make([]byte, 0, TokenLen)
	for _, b := range raw {
		token = append(token, digits[b>>4], digits[b&15])
	}
	return string(token), nil
}

// ValidToken tells whether t is 32 lower-case hexadecimal digits.
func ValidToken(t string) bool {
	if len(t) != TokenLen {
		return false
	}
	for i := range len(t) {
		if c := t[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// AppendMarker appends a marker with the given token and body to dst.
func AppendMarker(dst []byte, token, body string) []byte {
	dst = append(dst, RecordSeparator)
	dst = append(dst, token...)
	dst = append(dst, ' ')
	dst = append(dst, body...)
	return append(dst, '\n')
}

// Command is the argument list that runs the wrapper. With keep, what the command
// left in its group stays when the command exits; without, it is killed.
func Command(keep bool) []string {
	background := "kill"
	if keep {
		background = "keep"
	}
	return []string{"sh", "-c", runScript, "wsctl", background}
}

// Greeting is what the wrapper reads first; it answers with its group. Nothing
// runs when its input ends here.
func Greeting(token string) []byte { return append([]byte(token), '\n') }

// Input is what the wrapper reads after the [Greeting] and before the command's
// own input. It runs the command in dir, an absolute path of any bytes but NUL.
// The script comes from [Script.Text].
func Input(token, dir string, script []byte) ([]byte, error) {
	if dir == "" || dir[0] != '/' || strings.IndexByte(dir, 0) >= 0 {
		return nil, errors.New("wrapper: the directory is not absolute, or holds a NUL byte")
	}
	in := make([]byte, 0, len(dir)+2*(TokenLen+1)+len(script)+2)
	in = append(append(in, dir...), '\n')
	in = append(append(in, token...), '\n')
	in = append(in, script...)
	if len(script) > 0 && script[len(script)-1] != '\n' {
		in = append(in, '\n')
	}
	return append(append(in, token...), '\n'), nil
}
