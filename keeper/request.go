package keeper

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/wsctl/wsctl/wrapper"
)

// Request is one command for a serving keeper. All strings are raw bytes without
// NUL.
type Request struct {
	// Path is the program's file. It is not looked up; a relative one is below Dir.
	Path string
	// Args is the whole argument list with the program's name first.
	Args []string
	// Inner, when it is not 0, is where in Args the argument list of another
	// program begins, which the one at Path would look up and become, as a shell
	// does by `exec "$@"` (wrapper.Argv). A keeper that finds it in a plain way
	// starts it at once, and saves one program; Path is for everything else.
	Inner int
	// Env is the whole environment, NAME=value. Nothing is added but PWD for an
	// inner program, as a shell adds it.
	Env []string
	// Dir is the directory that the command starts in; it must not be empty.
	Dir string
	// Keep leaves what the command has started when it exits. The keeper then
	// retires: see [Status.Retired].
	Keep bool
	// Outlive, with Keep, leaves it beyond the end of stdin as well: the one who
	// asked may go.
	Outlive bool
	// Terminal gives the command a terminal of that size as its stdin, stdout and
	// stderr; output comes as stdout. It excludes Keep.
	Terminal *Size
}

// Size is that of a terminal, in characters.
type Size struct{ Rows, Cols uint16 }

// freshTime is how old a request may be when the keeper gets it: a sender waits
// longer than that before it gives one up. An older one is confirmed first.
const freshTime = 200 * time.Millisecond

// order is a Request on its way to the keeper.
type order struct {
	Request
	token, seal string
	noStdin     bool
	sent        int64 // by sinceBoot
}

func (o *order) encode() []byte {
	b := appendString(nil, o.token)
	b = appendString(b, o.seal)
	b = appendString(b, o.Path)
	b = appendStrings(b, o.Args)
	b = binary.AppendUvarint(b, uint64(o.Inner))
	b = appendStrings(b, o.Env)
	b = appendString(b, o.Dir)
	b = appendBool(b, o.Keep)
	b = appendBool(b, o.Outlive)
	b = appendBool(b, o.noStdin)
	b = binary.AppendUvarint(b, uint64(o.sent))
	b = appendBool(b, o.Terminal != nil)
	if o.Terminal != nil {
		b = appendSize(b, *o.Terminal)
	}
	return b
}

func decodeOrder(payload []byte) (*order, bool) {
	d := decoder{b: payload}
	o := d.order()
	return o, d.end() && o.valid()
}

func (d *decoder) order() *order {
	o := &order{token: d.string(), seal: d.string()}
	o.Path = d.string()
	o.Args = d.strings()
	o.Inner = int(d.uint(uint64(max(len(o.Args), 1) - 1)))
	o.Env = d.strings()
	o.Dir = d.string()
	o.Keep = d.bool()
	o.Outlive = d.bool()
	o.noStdin = d.bool()
	o.sent = int64(d.uint(math.MaxInt64))
	if d.bool() {
		size := d.size()
		o.Terminal = &size
	}
	return o
}

func (o *order) valid() bool {
	return wrapper.ValidToken(o.token) && wrapper.ValidToken(o.seal) && o.Path != "" && o.Dir != "" &&
		o.Inner >= 0 && o.Inner < len(o.Args) && (!o.Keep || o.Terminal == nil)
}

func appendSize(b []byte, s Size) []byte {
	b = binary.AppendUvarint(b, uint64(s.Rows))
	return binary.AppendUvarint(b, uint64(s.Cols))
}

func (d *decoder) size() Size {
	return Size{Rows: uint16(d.uint(math.MaxUint16)), Cols: uint16(d.uint(math.MaxUint16))}
}
