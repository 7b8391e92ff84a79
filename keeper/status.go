package keeper

import (
	"strconv"
	"strings"
	"time"

	"github.com/wsctl/wsctl/wrapper"
)

// Status is how a command ended.
type Status struct {
	// Code is the exit status, or 128 + Signal.
	Code int
	// Signal ended the command; 0 when it exited by itself. A Linux number.
	Signal int
	// Stopped: a stop was asked for before the command's own exit.
	Stopped bool
	// Ended counts the processes that were still alive after the command's exit
	// and were killed. One whose own parent reaped it in dying is not in it: 0 says
	// that nothing was left, more says about how much.
	Ended int
	// Unfinished counts processes that did not go away in time (they hang in the
	// kernel, or may not be killed by this user). The keeper retires.
	Unfinished int
	// Retired: the keeper takes no other command: something is left, or the
	// command has changed what the next one would inherit of the keeper. It stays
	// as the parent of what is left, and exits when that is gone.
	Retired bool
	// Usage is what the command and all that ended before it has used.
	Usage Usage
	// OutputErr is the first error of a Streams writer; the rest of that stream was
	// dropped. It is found by the client.
	OutputErr error
}

// Usage is the sum over the command, its waited-for children and the orphans that
// the keeper has reaped, of getrusage(2).
type Usage struct {
	User, System time.Duration
	// MaxRSS is the largest resident size of one process, in bytes. The kernel
	// counts in the few MiB of the keeper that it was started from.
	MaxRSS int64
}

// body is the end marker's text; parse reads it back.
func (s *Status) body(seal string) string {
	return string(appendFields(append([]byte("exit "), seal...), s.fields()))
}

type field struct {
	key         string
	value, most int64
}

// appendFields appends " key=value" for each; valuesOf reads them back.
func appendFields(b []byte, fields []field) []byte {
	for _, f := range fields {
		b = append(append(append(b, ' '), f.key...), '=')
		b = strconv.AppendInt(b, f.value, 10)
	}
	return b
}

func valuesOf(text string, fields []field) ([]int64, bool) {
	value := make([]int64, len(fields))
	words := strings.Split(text, " ")
	if len(words) != len(fields)+1 || words[0] != "" {
		return nil, false
	}
	for i, f := range fields {
		digits, ok := strings.CutPrefix(words[i+1], f.key+"=")
		n, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || n < 0 || n > f.most {
			return nil, false
		}
		value[i] = n
	}
	return value, true
}

func flag(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

func (s *Status) fields() []field {
	const pids, long = 1 << 30, 1 << 62
	return []field{
		{"code", int64(s.Code), 255},
		{"signal", int64(s.Signal), 127},
		{"stopped", flag(s.Stopped), 1},
		{"ended", int64(s.Ended), pids},
		{"unfinished", int64(s.Unfinished), pids},
		{"retired", flag(s.Retired), 1},
		{"user", int64(s.Usage.User), long},
		{"system", int64(s.Usage.System), long},
		{"maxrss", s.Usage.MaxRSS, long},
	}
}

// parseStatus reads an end marker's text strictly: the very fields, in order, in
// range, in the one spelling that body gives them.
func parseStatus(text, seal string) (Status, bool) {
	var s Status
	if !wrapper.ValidToken(seal) {
		return s, false
	}
	rest, ok := strings.CutPrefix(text, "exit "+seal)
	if !ok {
		return s, false
	}
	value, ok := valuesOf(rest, s.fields())
	if !ok {
		return s, false
	}
	s = Status{
		Code: int(value[0]), Signal: int(value[1]), Stopped: value[2] == 1,
		Ended: int(value[3]), Unfinished: int(value[4]), Retired: value[5] == 1,
		Usage: Usage{User: time.Duration(value[6]), System: time.Duration(value[7]), MaxRSS: value[8]},
	}
	if s.Signal != 0 && s.Code != 128+s.Signal {
		return s, false
	}
	return s, s.body(seal) == text
}
