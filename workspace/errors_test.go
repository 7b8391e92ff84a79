package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wsctl/wsctl/workspace"
)

var codes = []workspace.Code{
	workspace.ErrOutside, workspace.ErrNotFound, workspace.ErrNotFile, workspace.ErrNotDirectory,
	workspace.ErrExists, workspace.ErrNotEmpty, workspace.ErrTooLarge, workspace.ErrInvalidPath,
	workspace.ErrNotStarted, workspace.ErrDisposed, workspace.ErrUnavailable, workspace.ErrAborted,
	workspace.ErrDenied, workspace.ErrBusy, workspace.ErrUnsupported, workspace.ErrIO,
	workspace.ErrInvalidArgument, workspace.ErrConflict, workspace.ErrCorrupt, workspace.ErrTooMany,
}

func TestErrorIs(t *testing.T) {
	standard := map[workspace.Code]error{
		workspace.ErrNotFound:        fs.ErrNotExist,
		workspace.ErrExists:          fs.ErrExist,
		workspace.ErrDenied:          fs.ErrPermission,
		workspace.ErrInvalidPath:     fs.ErrInvalid,
		workspace.ErrInvalidArgument: fs.ErrInvalid,
		workspace.ErrDisposed:        fs.ErrClosed,
		workspace.ErrUnsupported:     errors.ErrUnsupported,
	}
	for _, code := range codes {
		cause := errors.New("cause")
		var err error = fmt.Errorf("outer: %w", workspace.Errorf(code, "op", "p", "because: %w", cause))
		for _, other := range codes {
			if got := errors.Is(err, other); got != (code == other) {
				t.Errorf("errors.Is(%s, %s) is %v", code, other, got)
			}
		}
		for _, std := range []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid, fs.ErrClosed, errors.ErrUnsupported, context.Canceled} {
			if got := errors.Is(err, std); got != (standard[code] == std) {
				t.Errorf("errors.Is(%s, %v) is %v", code, std, got)
			}
		}
		if !errors.Is(err, cause) {
			t.Errorf("%s does not wrap its cause", code)
		}
		if got := workspace.CodeOf(err); got != code {
			t.Errorf("CodeOf is %s, want %s", got, code)
		}
		if got := workspace.CodeOf(fmt.Errorf("x: %w", code)); got != code {
			t.Errorf("CodeOf of the bare code is %s, want %s", got, code)
		}
	}
	if got := workspace.CodeOf(errors.New("x")); got != "" {
		t.Errorf("CodeOf of a foreign error is %q", got)
	}
	if got := workspace.CodeOf(nil); got != "" {
		t.Errorf("CodeOf(nil) is %q", got)
	}
}

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		err  *workspace.Error
		text string
	}{
		{&workspace.Error{Code: workspace.ErrIO}, "IO"},
		{&workspace.Error{Code: workspace.ErrIO, Op: "read"}, "IO: read"},
		{&workspace.Error{Code: workspace.ErrIO, Path: "a b"}, "IO: a b"},
		{workspace.Errorf(workspace.ErrOutside, "read", "../é", "use a path below /place"), "OUTSIDE_ROOT: read ../é: use a path below /place"},
		{workspace.Errorf(workspace.ErrIO, "read", "a\x1b]0;x\x07\r\n", "b\x1b[2J\nc\x7f\u202e\xff"), `IO: read "a\x1b]0;x\a\r\n": b\x1b[2J\nc\x7f\u202e\xff`},
	} {
		if got := c.err.Error(); got != c.text {
			t.Errorf("got  %s\nwant %s", got, c.text)
		}
	}
}

func TestErrorTextIsBounded(t *testing.T) {
	for _, path := range []string{strings.Repeat("a", 40<<10), strings.Repeat("漢", 40<<10), strings.Repeat("\x00", 40<<10), "p"} {
		for _, reason := range []string{strings.Repeat("é", 40<<10), "x" + strings.Repeat("😀", 2<<10), "r"} {
			text := workspace.Errorf(workspace.ErrNotFound, "stat", path, "%s", reason).Error()
			if len(text) > 4096 {
				t.Errorf("the text has %d bytes", len(text))
			}
			if !utf8.ValidString(text) {
				t.Errorf("the cut went through a character: %q", text[len(text)-8:])
			}
			if len(path)+len(reason) > 4096 && !strings.HasSuffix(text, "…") {
				t.Errorf("the cut is not marked: %q", text[len(text)-8:])
			}
		}
	}
}

// Printable shows any bytes on one line of a terminal.
func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"", "a b", "é", "a\nb", "\x1b[31m", "\xff", `"a\nb"`, "\u202e", "漢\u0000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := workspace.Printable(s)
		for _, r := range p {
			if r < 0x20 || r >= 0x7f && r < 0xa0 || r == utf8.RuneError && !strings.ContainsRune(s, utf8.RuneError) {
				t.Errorf("%q shows as %q", s, p)
			}
		}
	})
}
