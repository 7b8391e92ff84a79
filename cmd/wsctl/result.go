package main

import (
	"encoding/base64"
	"fmt"
	"syscall"
	"unicode/utf8"

	"github.com/wsctl/wsctl/workspace"
)

// result is what `wsctl run --json` prints.
type result struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// InvalidUTF8 reports that bytes of stdout or stderr are not UTF-8: the
	// text has U+FFFD for them, and the exact bytes are in the base64 fields.
	InvalidUTF8  bool    `json:"invalidUTF8"`
	StdoutBase64 string  `json:"stdoutBase64,omitempty"`
	StderrBase64 string  `json:"stderrBase64,omitempty"`
	ExitCode     int     `json:"exitCode"`
	Signal       *string `json:"signal"`
	TimedOut     bool    `json:"timedOut"`
	Truncated    bool    `json:"truncated"`
	// DroppedBytes is what is missing of both streams together.
	DroppedBytes  int64    `json:"droppedBytes"`
	StdoutDropped *dropped `json:"stdoutDropped,omitempty"`
	StderrDropped *dropped `json:"stderrDropped,omitempty"`
	OOMKilled     bool     `json:"oomKilled"`
	DurationMs    int64    `json:"durationMs"`
	// Ended counts processes that the command left running.
	Ended     int      `json:"ended,omitempty"`
	Recreated string   `json:"recreated,omitempty"`
	Usage     *usage   `json:"usage,omitempty"`
	Error     *failure `json:"error,omitempty"`
}

// dropped says how many bytes are missing and at which of the bytes that are
// there.
type dropped struct {
	Bytes  int64 `json:"bytes"`
	Offset int   `json:"offset"`
}

type usage struct {
	UserMs      int64 `json:"userMs"`
	SystemMs    int64 `json:"systemMs"`
	MaxRSSBytes int64 `json:"maxRssBytes"`
}

// failure is wsctl's own.
type failure struct {
	Code    workspace.Code `json:"code"`
	Message string         `json:"message"`
}

func newFailure(err error) *failure {
	err = coded(err)
	return &failure{Code: workspace.CodeOf(err), Message: err.Error()}
}

// newResult makes the object of a command; out may be nil when err is not.
func newResult(out *workspace.Output, err error) result {
	var r result
	if out != nil {
		r.Stdout, r.StdoutBase64 = text(out.Stdout)
		r.Stderr, r.StderrBase64 = text(out.Stderr)
		r.InvalidUTF8 = r.StdoutBase64 != "" || r.StderrBase64 != ""
		r.ExitCode = out.ExitCode
		if out.Signal != 0 {
			name := signalName(out.Signal)
			r.Signal = &name
		}
		r.TimedOut, r.Truncated, r.OOMKilled = out.TimedOut, out.Truncated, out.OOMKilled
		r.DroppedBytes = out.StdoutDropped.Bytes + out.StderrDropped.Bytes
		r.StdoutDropped, r.StderrDropped = newDropped(out.StdoutDropped), newDropped(out.StderrDropped)
		r.DurationMs = out.Duration.Milliseconds()
		r.Ended, r.Recreated = out.Ended, out.Recreated
		if u := out.Usage; u != nil {
			r.Usage = &usage{UserMs: u.User.Milliseconds(), SystemMs: u.System.Milliseconds(), MaxRSSBytes: u.MaxRSS}
		}
	}
	if err != nil {
		r.ExitCode = statusOf(err)
		r.Error = newFailure(err)
	}
	return r
}

func newDropped(d workspace.Dropped) *dropped {
	if d.Bytes == 0 {
		return nil
	}
	return &dropped{Bytes: d.Bytes, Offset: d.Offset}
}

// text returns b as UTF-8, and as base64 too when it is not.
func text(b []byte) (valid, exact string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	// One U+FFFD a byte, as encoding/json does.
	return string([]rune(string(b))), base64.StdEncoding.EncodeToString(b)
}

// signalName is "SIGKILL" and the like; a real-time signal is "SIG" and its number.
func signalName(sig syscall.Signal) string {
	if name := signalText(sig); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", int(sig))
}
