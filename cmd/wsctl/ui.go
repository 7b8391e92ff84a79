package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"

	"golang.org/x/term"

	"github.com/wsctl/wsctl/workspace"
)

// This file and log.go and progress.go are where wsctl writes to the terminal.
// The rules: results go to standard output, talk to standard error. Talk is a
// line that starts with "wsctl: " in lower case and without a full stop;
// --quiet drops it. A failure is one line that starts with its code, always.
// With --json, standard output is one JSON document, also after a failure.
// What others have named is escaped.

// ui writes to the terminal. Its methods may be called by many goroutines at
// once.
type ui struct {
	in, out, err *os.File
	// inTTY, outTTY and errTTY tell which of them are terminals.
	inTTY, outTTY, errTTY bool
	// fancy is whether what moves on a terminal is wanted.
	fancy bool

	mu    sync.Mutex
	quiet bool // guarded by mu
	raw   bool // guarded by mu: the terminal does no line ends of its own
}

func newUI(in, out, err *os.File, fancy bool) *ui {
	tty := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	return &ui{in: in, out: out, err: err, inTTY: tty(in), outTTY: tty(out), errTTY: tty(err), fancy: fancy}
}

// setQuiet drops talk from here on.
func (u *ui) setQuiet(quiet bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.quiet = quiet
}

func (u *ui) isQuiet() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.quiet
}

// setRaw says whether the terminal is in raw mode, where a line feed does not
// go back to the first column.
func (u *ui) setRaw(raw bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.raw = raw
}

// warn tells what the user should know and may ignore.
func (u *ui) warn(format string, args ...any) {
	u.talk("warning: " + fmt.Sprintf(format, args...))
}

// talk prints one line about what goes on.
func (u *ui) talk(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.quiet {
		u.errLine("wsctl: " + text)
	}
}

// failure prints the one line of a failure.
func (u *ui) failure(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.errLine(coded(err).Error())
}

// question prints a question that the user answers on the same line.
func (u *ui) question(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, _ = io.WriteString(u.err, escapeLine("wsctl: "+fmt.Sprintf(format, args...)))
}

// errLine writes a line whose text is safe to show; mu is held. An error has
// nowhere to go.
func (u *ui) errLine(text string) {
	end := "\n"
	if u.raw {
		end = "\r\n"
	}
	_, _ = io.WriteString(u.err, escapeLine(text)+end)
}

// escapeLine makes text one line that drives no terminal.
func escapeLine(text string) string {
	var b bytes.Buffer
	w := plainWriter{to: &b}
	_, _ = w.Write([]byte(strings.NewReplacer("\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(text)))
	w.flush()
	return b.String()
}

// object prints v as one JSON document.
func (u *ui) object(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("output as JSON: %w", err)
	}
	return u.result(escapeJSON(b.Bytes()))
}

// line prints v as one JSON document on a line of its own.
func (u *ui) line(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("output as JSON: %w", err)
	}
	return u.result(escapeJSON(b.Bytes()))
}

// result writes to standard output.
func (u *ui) result(text []byte) error {
	if _, err := u.out.Write(text); err != nil {
		return workspace.Errorf(workspace.ErrIO, "", "", "standard output: %w", err)
	}
	return nil
}

// table prints rows under a header in columns. Fields must have been made
// printable.
func (u *ui) table(header []string, rows [][]string) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		// Writing to memory does not fail.
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
	return u.result(b.Bytes())
}

// stream is where a command's own output goes: byte for byte into a file or a
// pipe, and to a terminal as text that cannot drive it. done shows what was
// held back.
func (u *ui) stream(f *os.File, tty bool) (w io.Writer, done func()) {
	if !tty {
		return f, func() {}
	}
	plain := &plainWriter{to: f}
	return plain, plain.flush
}
