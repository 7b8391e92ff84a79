package workspace_test

import (
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/wsctl/wsctl/workspace"
)

// realDriver is an in-process driver whose root has a second spelling.
type realDriver struct {
	*inprocess
	real string
}

func (d *realDriver) Real() string { return d.real }

func TestPathSpelling(t *testing.T) {
	d := &realDriver{newInprocess(nil), "/private/place"}
	ws := open(t, d, workspace.Options{})
	long := strings.Repeat("n", 255)
	for _, c := range []struct {
		path, name string
		code       workspace.Code
	}{
		{".", ".", ""},
		{"a", "a", ""},
		{"./a", "./a", ""},
		{"b/../a", "b/../a", ""},
		{"a//b/", "a//b/", ""},
		{"..", "..", ""}, // the tree's to judge: links decide what it means
		{"/place", ".", ""},
		{"/place/", ".", ""},
		{"/place/a", "a", ""},
		{"//place///a/", "a/", ""},
		{"/place/../x", "../x", ""},
		{"/private/place/a", "a", ""},
		{"~", "~", ""},
		{"%2e%2e", "%2e%2e", ""},
		{`a\..\b`, `a\..\b`, ""},
		{"\xff", "\xff", ""},
		{long, long, ""},
		{"/", "", workspace.ErrOutside},
		{"/placex", "", workspace.ErrOutside},
		{"/placex/a", "", workspace.ErrOutside},
		{"/plac", "", workspace.ErrOutside},
		{"/private/place-2", "", workspace.ErrOutside},
		{"/x/../place/a", "", workspace.ErrOutside},
		{"//x", "", workspace.ErrOutside},
		{"", "", workspace.ErrInvalidPath},
		{"a\x00", "", workspace.ErrInvalidPath},
		{"/place/a\x00b", "", workspace.ErrInvalidPath},
		{long + "n", "", workspace.ErrInvalidPath},
		{"a/" + long + "n/b", "", workspace.ErrInvalidPath},
		{strings.Repeat("a/", 2048), "", workspace.ErrInvalidPath},
		{strings.Repeat("a/", 2047) + "a", strings.Repeat("a/", 2047) + "a", ""},
	} {
		d.files.names = nil
		_, err := ws.Stat(t.Context(), c.path)
		switch got := d.files.names; {
		case c.code != "":
			if workspace.CodeOf(err) != c.code || len(got) != 0 {
				t.Errorf("%.40q: %v, the tree was asked for %q; want %s", c.path, err, got, c.code)
			}
		case len(got) != 1 || got[0] != c.name:
			t.Errorf("%.40q became %q, want %.40q", c.path, got, c.name)
		}
	}
}

func TestPathBelowTheRootDirectory(t *testing.T) {
	d := newInprocess(nil)
	d.root = "/"
	ws := open(t, d, workspace.Options{})
	for path, name := range map[string]string{"/": ".", "/a": "a", "//a/b": "a/b"} {
		d.files.names = nil
		ws.Stat(t.Context(), path)
		if got := d.files.names; len(got) != 1 || got[0] != name {
			t.Errorf("%q became %q, want %q", path, got, name)
		}
	}
}

// The path in an error is the one the caller gave, also where the driver
// names what it was asked for.
func TestErrorsNameThePathAsGiven(t *testing.T) {
	d := newInprocess(nil)
	d.files.tree["f"] = &fstest.MapFile{}
	d.files.tree["d/x"] = &fstest.MapFile{}
	ws := open(t, d, workspace.Options{})
	ctx := t.Context()
	for given, call := range map[string]func(string) error{
		"/place/../x":   func(p string) error { _, err := ws.Stat(ctx, p); return err },
		"/place/gone":   func(p string) error { _, err := ws.ReadFile(ctx, p, 0); return err },
		"/place/d":      func(p string) error { _, err := ws.ReadFile(ctx, p, 0); return err },
		"/place/l":      func(p string) error { return ws.Symlink(ctx, "f", p) },
		"/place/d/../f": func(p string) error { return ws.Rename(ctx, "d/x", p, workspace.RenameOptions{}) },
		"/place//f": func(p string) error {
			_, err := ws.Copy(ctx, "d/x", p, workspace.WriteOptions{Exclusive: true})
			return err
		},
		"/placex": func(p string) error { return ws.Rename(ctx, "d/x", p, workspace.RenameOptions{}) },
		"/place/no": func(p string) error {
			_, err := ws.Exec(ctx, workspace.Command{Args: []string{"x"}, Dir: p})
			return err
		},
		"/place/../no": func(p string) error {
			_, err := ws.Exec(ctx, workspace.Command{Args: []string{"x"}, Dir: p})
			return err
		},
	} {
		err := call(given)
		e, ok := err.(*workspace.Error)
		if !ok || e.Path != given {
			t.Errorf("%q: %#v", given, err)
		}
		if !ok || e.Op == "" {
			t.Errorf("%q: no verb in %v", given, err)
		}
	}
}

// FuzzPath: whatever a caller gives, the tree is asked for a name that driver.go
// allows, or not at all; and an absolute path means what it means below the
// root.
func FuzzPath(f *testing.F) {
	for _, s := range []string{
		"", ".", "..", "/", "a", "./a", "a/../b", "/place", "/place/a", "/placex", "//place//a",
		"/place/../x", "~", "%2e%2e", `a\..\b`, "a\x00b", "\xff\xfe", strings.Repeat("x", 256),
		strings.Repeat("x/", 2048), "/place/" + strings.Repeat("../", 9), "/Place/a", "/place\n/a", "/./place/a",
	} {
		f.Add(s)
	}
	d := newInprocess(nil)
	ws := open(f, d, workspace.Options{})
	f.Fuzz(func(t *testing.T, p string) {
		d.files.names = nil
		_, err := ws.Stat(t.Context(), p)
		if len(d.files.names) == 0 {
			if code := workspace.CodeOf(err); code != workspace.ErrInvalidPath && code != workspace.ErrOutside {
				t.Fatalf("%q was refused with %v", p, err)
			}
			inside := p != "" && p[0] != '/' || strings.HasPrefix(p, "/place/")
			sound := len(p) <= 4095 && !strings.Contains(p, "\x00")
			for part := range strings.SplitSeq(p, "/") {
				sound = sound && len(part) <= 255
			}
			if inside && sound {
				t.Fatalf("%q was refused: %v", p, err)
			}
			return
		}
		name := d.files.names[0]
		if name == "" || name[0] == '/' || len(name) > 4095 || strings.Contains(name, "\x00") {
			t.Fatalf("%q became %q, which driver.go does not allow", p, name)
		}
		want := path.Clean("/place/" + p)
		if p[0] == '/' {
			want = path.Clean(p)
		}
		if got := path.Clean("/place/" + name); got != want {
			t.Fatalf("%q became %q: %q, want %q", p, name, got, want)
		}
	})
}
