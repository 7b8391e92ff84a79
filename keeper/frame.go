package keeper

import (
	"encoding/binary"
	"errors"
	"time"
)

// Frame types, client to serving keeper.
const (
	frameRequest = 'R'
	frameStdin   = 'I'
	frameEOF     = 'E' // of the command's stdin
	frameSignal  = 'S' // uvarint signal number, to the command's group
	frameStop    = 'T' // uvarint grace in milliseconds
	frameResize  = 'W' // uvarint rows, uvarint columns
	frameGo      = 'G' // runs a request that came late
)

// Frame types, client to PID 1 and, with the same type, back. Each begins with
// a uvarint nonce that the answer repeats.
const (
	frameReport = 'r'
	frameSweep  = 's'
	frameKill   = 'k'
)

const (
	// maxFrame bounds a frame: a request with the largest argument list that the
	// kernel takes (2 MiB by default, execve(2)) fits well.
	maxFrame = 8 << 20
	// maxStdinFrame bounds the payload of one stdin frame.
	maxStdinFrame = 32 << 10
	// stdinWindow is how many bytes of stdin may be sent and not acknowledged.
	// The keeper can hold that many, so it never stops reading frames.
	stdinWindow = 256 << 10
	// ackEvery is how much is consumed before it is acknowledged: far less than
	// the window, so that the client never has to wait for nothing.
	ackEvery = 64 << 10
)

var errMalformed = errors.New("keeper: malformed frame")

type frame struct {
	kind    byte
	payload []byte
}

// appendFrame appends a frame that holds the given parts one after another.
func appendFrame(b []byte, kind byte, payload []byte) []byte {
	b = append(b, kind)
	b = binary.AppendUvarint(b, uint64(len(payload)))
	return append(b, payload...)
}

// parseFrame takes a frame off the front of b and tells its size, which is 0 when b
// holds only the beginning of one. The payload is a part of b.
func parseFrame(b []byte) (f frame, size int, err error) {
	if len(b) == 0 {
		return frame{}, 0, nil
	}
	n, width := binary.Uvarint(b[1:])
	if width < 0 || n > maxFrame || width == 0 && len(b) > binary.MaxVarintLen64 {
		return frame{}, 0, errMalformed
	}
	if head := 1 + width; width > 0 && n <= uint64(len(b)-head) {
		return frame{kind: b[0], payload: b[head : head+int(n)]}, head + int(n), nil
	}
	return frame{}, 0, nil
}

// decoder takes values off the front of a payload; the first fault sticks.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > limit {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bool() bool { return d.uint(1) == 1 }

func (d *decoder) bytes() []byte {
	n := d.uint(uint64(len(d.b)))
	if d.bad || n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) string() string { return string(d.bytes()) }

func (d *decoder) strings() []string {
	n := d.uint(uint64(len(d.b))) // each takes a byte at least
	var list []string
	for range n {
		list = append(list, d.string())
		if d.bad {
			return nil
		}
	}
	return list
}

// end tells whether all was well formed and nothing is left.
func (d *decoder) end() bool { return !d.bad && len(d.b) == 0 }

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// graceOf decodes a stop frame: at most a day, which is as good as for ever.
func graceOf(payload []byte) (time.Duration, bool) {
	d := decoder{b: payload}
	ms := d.uint(24 * 60 * 60 * 1000)
	return time.Duration(ms) * time.Millisecond, d.end()
}

// stopFrame is the payload that graceOf decodes. Part of a millisecond counts as one.
func stopFrame(grace time.Duration) []byte {
	ms := (max(grace, 0) + time.Millisecond - 1) / time.Millisecond
	return binary.AppendUvarint(nil, min(uint64(ms), 24*60*60*1000))
}
