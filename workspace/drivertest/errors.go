//go:build unix

package drivertest

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/wsctl/wsctl/workspace"
)

func errorCases() []testCase {
	return []testCase{
		{name: "codes", run: errorCodes, rule: "Every failure is an *Error with one code, found by its sentinel and by the standard error it stands for, and by no other."},
		{name: "path and verb", run: errorPath, rule: "An error names the verb, and the path as the caller spelled it."},
		{name: "text", run: errorText, rule: "An error is one line, at most 4 KiB, without control characters, whatever names are about, and says more than its code."},
		{name: "fs errors", run: fsErrors, rule: "Errors of FS are *fs.PathError around an *Error."},
		{name: "unsupported", run: unsupportedErrors, rule: "What a driver lacks is UNSUPPORTED and errors.ErrUnsupported, never a panic or a silence."},
	}
}

// failing are calls that fail, by the code they must fail with.
func (t *checker) failing() map[workspace.Code]map[string]func(path string) error {
	t.plant("mkdir full; echo x > full/f; echo x > file; echo x > ro; chmod 444 ro; ln -s loop loop; mkdir empty")
	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	read := func(p string) error { _, err := t.ws.ReadFile(t.ctx, p, 0); return err }
	write := func(o workspace.WriteOptions) func(string) error {
		return func(p string) error { _, err := t.ws.WriteFile(t.ctx, p, []byte("new content"), o); return err }
	}
	dir := func(p string) error { _, err := t.ws.Exec(t.ctx, workspace.Command{Shell: ":", Dir: p}); return err }
	return map[workspace.Code]map[string]func(string) error{
		workspace.ErrOutside:      {"../../x": read, "../..": write(workspace.WriteOptions{}), "../../": dir},
		workspace.ErrNotFound:     {"gone": read, "gone/x": dir},
		workspace.ErrNotFile:      {"full": read, "full/": read, "empty": write(workspace.WriteOptions{})},
		workspace.ErrNotDirectory: {"file/x": read, "file": dir, "ro/x": write(workspace.WriteOptions{})},
		workspace.ErrExists: {
			"file": write(workspace.WriteOptions{Exclusive: true}),
			"full": func(p string) error { return t.ws.Mkdir(t.ctx, p, workspace.MkdirOptions{}) },
		},
		workspace.ErrNotEmpty:        {"full": func(p string) error { return t.ws.Remove(t.ctx, p, workspace.RemoveOptions{}) }},
		workspace.ErrTooLarge:        {"file": func(p string) error { _, err := t.ws.ReadFile(t.ctx, p, 1); return err }, "new": write(workspace.WriteOptions{MaxBytes: 3})},
		workspace.ErrInvalidPath:     {"loop": read, "a\x00": read},
		workspace.ErrAborted:         {"file": func(p string) error { _, err := t.ws.ReadFile(ended, p, 0); return err }},
		workspace.ErrDenied:          {"ro": write(workspace.WriteOptions{})},
		workspace.ErrInvalidArgument: {"file": func(p string) error { return t.ws.Chmod(t.ctx, p, fs.ModeSetuid) }},
		workspace.ErrConflict:        {"file": write(workspace.WriteOptions{IfVersion: "another"})},
	}
}

func errorCodes(t *checker) {
	standard := map[workspace.Code]error{
		workspace.ErrNotFound: fs.ErrNotExist, workspace.ErrExists: fs.ErrExist, workspace.ErrDenied: fs.ErrPermission,
		workspace.ErrInvalidPath: fs.ErrInvalid, workspace.ErrInvalidArgument: fs.ErrInvalid, workspace.ErrAborted: context.Canceled,
	}
	for code, calls := range t.failing() {
		for name, call := range calls {
			err := call(t.path(name))
			var e *workspace.Error
			if !errors.As(err, &e) || !errors.Is(err, code) || e.Code != code {
				t.Errorf("%q: %v, want %s", name, err, code)
				continue
			}
			for _, std := range []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid, fs.ErrClosed, context.Canceled, errors.ErrUnsupported} {
				if is := errors.Is(err, std); std == standard[code] && !is {
					t.Errorf("%q: %v is not %v", name, err, std)
				}
			}
		}
	}
}

func errorPath(t *checker) {
	for code, calls := range t.failing() {
		for name, call := range calls {
			for _, given := range []string{t.path(name), "./" + t.path(name), t.abs(name)} {
				err := call(given)
				var e *workspace.Error
				if !errors.As(err, &e) {
					t.Errorf("%q: %v is no *Error", given, err)
					continue
				}
				if e.Path != given || e.Op == "" {
					t.Errorf("%s: verb %q, path %q, want %q", code, e.Op, e.Path, given)
				}
			}
		}
	}
	t.plant("echo x > from; echo x > to")
	for _, given := range []string{t.path("to"), t.abs("to"), "./" + t.path("to")} {
		err := t.ws.Rename(t.ctx, t.path("from"), given, workspace.RenameOptions{})
		var e *workspace.Error
		if !errors.As(err, &e) || e.Path != given && e.Path != t.path("from") {
			t.Errorf("rename to %q: %v", given, err)
		}
	}
}

func errorText(t *checker) {
	hostile := []string{"a\x1b]0;x\x07\r\n", "\u202eevil", "\xff\xfe", "x\x7f", strings.Repeat("é\n", 80), "plain"}
	for _, name := range hostile {
		for _, p := range []string{name, name + "/" + name, "../../" + name, strings.Repeat(name+"/", 4000/(len(name)+1)) + "x"} {
			_, err := t.ws.ReadFile(t.ctx, t.path(p), 0)
			if err == nil {
				t.Errorf("%.40q can be read", p)
				continue
			}
			text := err.Error()
			code := string(workspace.CodeOf(err))
			if len(text) > 4096 || !utf8.ValidString(text) || !strings.HasPrefix(text, code) || len(text) < len(code)+8 {
				t.Errorf("the text has %d bytes: %.200q", len(text), text)
			}
			for _, r := range text {
				if r < 0x20 || r == 0x7f || r == '\u202e' {
					t.Errorf("the text holds %q: %.200q", r, text)
					break
				}
			}
		}
	}
	// A link's text is as hostile as a name.
	t.plant("ln -s \"$(printf '/etc/\\033[2J\\r')\" link")
	_, err := t.ws.ReadFile(t.ctx, t.path("link"), 0)
	t.wantCode("a link with a hostile text", err, workspace.ErrOutside)
	if err != nil && strings.ContainsAny(err.Error(), "\x1b\r\n") {
		t.Errorf("the text is %q", err)
	}
}

func fsErrors(t *checker) {
	fsys := t.ws.FS(t.ctx)
	t.plant("echo x > f; ln -s /etc out; mkfifo fifo")
	for name, want := range map[string]error{
		t.path("gone"): fs.ErrNotExist, t.path("out/passwd"): workspace.ErrOutside, t.path("f/x"): workspace.ErrNotDirectory, t.path("fifo"): workspace.ErrNotFile, "../x": fs.ErrInvalid,
	} {
		f, err := fsys.Open(name)
		if err == nil {
			f.Close()
		}
		var pe *fs.PathError
		if !errors.As(err, &pe) || pe.Path != name || pe.Op == "" || !errors.Is(err, want) {
			t.Errorf("Open %q: %#v, want %v", name, err, want)
		}
	}
}

func unsupportedErrors(t *checker) {
	// Every capability that is missing is checked where it is needed; here it
	// is that Exec takes no terminal whatever the driver can.
	_, err := t.exec(workspace.Command{Shell: "echo > ran", Terminal: &workspace.TerminalSize{Rows: 24, Cols: 80}})
	t.wantCode("Exec with a terminal", err, workspace.ErrInvalidArgument)
	t.wantGone("ran")
	if _, starter := t.ws.Driver().(workspace.Starter); t.caps.Start && !starter {
		t.Error("the harness says Start, and the driver is no Starter")
	}
	if !t.caps.Start {
		needStart().absent(t)
	}
	if t.caps.Start && !t.caps.Terminal {
		needTerminal().absent(t)
	}
}
