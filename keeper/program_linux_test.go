package keeper_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/wrapper"
)

// A program that the keeper finds by itself is the one that a shell would find, and
// where there is none the shell says so. Each request runs with an outer program that
// is a shell, and, where the keeper must not need that, with one that does not exist.
func TestInnerProgram(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		name = filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(name), 0o755))
		check(t, os.WriteFile(name, []byte(text), mode))
	}
	put("a/tool", "#!/bin/sh\necho a $#\n", 0o644) // not executable: the next one is
	put("b/tool", "#!/bin/sh\necho b $#\n", 0o755)
	put("c/tool", "#!/bin/sh\necho c $#\n", 0o755)
	put("c/plain", "echo plain $#\n", 0o755)
	put("c/lost", "#!/no/such/interpreter\n", 0o755)
	put("here", "#!/bin/sh\necho here\n", 0o755)
	check(t, os.Mkdir(filepath.Join(dir, "a/dir"), 0o755))
	put("b/dir", "#!/bin/sh\necho not the directory\n", 0o755)
	path := "PATH=" + dir + "/a:" + dir + "/b:" + dir + "/c"
	l := serve(t)
	for _, c := range []struct {
		name   string
		args   []string
		env    []string
		inner  bool // it is started without the shell
		stdout string
		code   int
	}{
		{"in PATH", []string{"tool", "x", "y"}, []string{path}, true, "b 2\n", 0},
		{"a directory of that name", []string{"dir"}, []string{path}, true, "not the directory\n", 0},
		{"relative path", []string{"./here"}, []string{path}, true, "here\n", 0},
		{"absolute path", []string{dir + "/c/tool"}, []string{path}, true, "c 0\n", 0},
		{"empty part of PATH", []string{"here"}, []string{"PATH=" + dir + "/a::" + dir + "/c"}, true, "here\n", 0},
		{"relative part of PATH", []string{"tool"}, []string{"PATH=c"}, true, "c 0\n", 0},
		{"no interpreter line", []string{"plain", "x"}, []string{path}, false, "plain 1\n", 0},
		{"interpreter missing", []string{"lost"}, []string{path}, false, "", 127},
		{"not found", []string{"nothing"}, []string{path}, false, "", 127},
		{"not executable", []string{"./a/tool"}, []string{path}, false, "", 126},
		{"directory", []string{"./a"}, []string{path}, false, "", 126},
	} {
		req := keeper.Request{Path: "/bin/sh", Dir: dir, Env: c.env}
		req.Args, req.Inner = wrapper.Argv(c.args, "")
		got := l.run(t, req, nil)
		if got.stdout != c.stdout || got.Code != c.code || (c.code == 0) != (got.stderr == "") {
			t.Errorf("%s: %+v", c.name, got)
		}
		req.Path = "/nonexistent"
		r, err := l.Start(deadline(t), req, keeper.Streams{})
		if (err == nil) != c.inner {
			t.Errorf("%s: without the shell: %v", c.name, err)
		}
		if err == nil {
			_, err = r.Wait(deadline(t))
			check(t, err)
		}
	}
}

// A shell is found where PATH is of no use, or missing.
func TestInnerShell(t *testing.T) {
	l := serve(t)
	for _, env := range [][]string{nil, {"PATH=/nonexistent"}} {
		req := keeper.Request{Path: "/bin/sh", Dir: "/", Env: env}
		req.Args, req.Inner = wrapper.Argv([]string{"sh", "-c", "echo found"}, "")
		if got := l.run(t, req, nil); got.stdout != "found\n" {
			t.Errorf("%v: %+v", env, got)
		}
	}
}

// PWD is what a shell would have made it, and the caller's where it is given.
func TestInnerDirectory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	check(t, err)
	check(t, os.Symlink(dir, filepath.Join(dir, "link")))
	l := serve(t)
	for _, c := range []struct{ env, want string }{{"A=b", dir}, {"PWD=/given", "/given"}} {
		req := keeper.Request{Path: "/bin/sh", Dir: dir + "/link", Env: []string{"PATH=/usr/bin:/bin", c.env}}
		req.Args, req.Inner = wrapper.Argv([]string{"printenv", "PWD"}, "")
		if got := l.run(t, req, nil); got.stdout != c.want+"\n" {
			t.Errorf("%s: %+v", c.env, got)
		}
	}
}
