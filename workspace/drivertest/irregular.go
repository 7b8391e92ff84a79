//go:build unix

package drivertest

import (
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func irregular(t *checker) {
	t.plant("mkfifo fifo; ln -s fifo link; mknod device c 0 0 2>/dev/null || :")
	names := []string{"fifo", "link"}
	if _, err := t.ws.Lstat(t.ctx, t.path("device")); err == nil {
		names = append(names, "device")
	}
	if t.host != "" {
		// A socket's path is short (unix(7)): bind it by a name relative to
		// a directory that is.
		dir := filepath.Join(t.host, t.dir)
		short := filepath.Join(t.TempDir(), "d")
		t.must(os.Symlink(dir, short))
		if l, err := net.Listen("unix", short+"/socket"); err == nil {
			defer l.Close()
			names = append(names, "socket")
		}
		// Somebody waits for the other end of the FIFO to be opened.
		for _, open := range []string{"exec cat fifo", "exec sh -c 'echo x > fifo'"} {
			waits := exec.CommandContext(t.ctx, "/bin/sh", "-c", open)
			waits.Dir = dir
			t.must(waits.Start())
			done := make(chan error, 1)
			go func() { done <- waits.Wait() }()
			t.refuseIrregular(names)
			select {
			case err := <-done:
				t.Errorf("the other end of the FIFO was opened: %q ended, %v", open, err)
			default:
				t.must(waits.Process.Kill())
				<-done
			}
		}
	}
	t.refuseIrregular(names)
	if fi, err := t.ws.Stat(t.ctx, t.path("fifo")); err != nil || fi.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("the FIFO is now %v, %v", fi, err)
	}
	t.must(t.ws.Rename(t.ctx, t.path("fifo"), t.path("moved"), workspace.RenameOptions{}))
	t.must(t.ws.Remove(t.ctx, t.path("moved"), workspace.RemoveOptions{}))
}

// refuseIrregular tries every verb that reads or writes files.
func (t *checker) refuseIrregular(names []string) {
	t.Helper()
	t.write("regular", "x")
	for _, name := range names {
		verbs := t.verbs(t.ctx, t.path(name), t.path("regular"))
		for _, verb := range []string{"Open", "ReadFile", "WriteFile", "Append", "Edit", "Copy to"} {
			began := time.Now()
			t.wantCode(verb+" "+name, verbs[verb](), workspace.ErrNotFile)
			t.within(verb+" "+name, began, 500*time.Millisecond)
		}
		_, err := t.ws.Copy(t.ctx, t.path(name), t.path("copy"), workspace.WriteOptions{})
		t.wantCode("Copy from "+name, err, workspace.ErrNotFile)
		began := time.Now()
		if f, err := t.ws.FS(t.ctx).Open(t.path(name)); err == nil {
			f.Close()
			t.Errorf("FS opens %s", name)
		}
		t.within("FS.Open "+name, began, 500*time.Millisecond)
		t.wantGone("copy")
	}
}

func directoryIsNoFile(t *checker) {
	t.plant("mkdir d; echo x > f; ln -s d link")
	for _, name := range []string{"d", "link"} {
		verbs := t.verbs(t.ctx, t.path(name), t.path("f"))
		for _, verb := range []string{"Open", "ReadFile", "WriteFile", "Append", "Edit", "Copy to"} {
			t.wantCode(verb+" "+name, verbs[verb](), workspace.ErrNotFile)
		}
	}
	_, err := t.ws.ReadFile(t.ctx, ".", 0)
	t.wantCode("ReadFile of the root", err, workspace.ErrNotFile)
	_, err = t.ws.ReadDir(t.ctx, t.path("f"), workspace.ListOptions{})
	t.wantCode("ReadDir of a file", err, workspace.ErrNotDirectory)
	for _, name := range []string{"f/", "f/.", "f/..", "f/x"} {
		_, err = t.ws.Stat(t.ctx, t.path(name))
		t.wantCode("Stat "+name, err, workspace.ErrNotDirectory)
	}
}

func stateIsClosed(t *checker) {
	t = t.fresh(workspace.Options{})
	t.write("f", "x")
	t.write("kept", "secret")
	t.must(t.ws.Mkdir(t.ctx, "a", workspace.MkdirOptions{}))
	t.must(t.ws.Remove(t.ctx, "kept", workspace.RemoveOptions{Trash: true}))
	before := ""
	if t.host != "" {
		t.plant("ln -s .wsctl link; ln -s link link2")
		before = t.plant("cd .wsctl && find . -type f -o -type d | sort")
		if !strings.Contains(before, "./") {
			t.Errorf("the trash is not in the state: %q", before)
		}
	}
	root := t.ws.Root()
	names := []string{
		".wsctl", "./.wsctl", ".wsctl/", "a/../.wsctl", root + "/.wsctl", ".//.wsctl/.", ".wsctl/x", ".wsctl/trash", ".WSCTL", ".wsctl/../.wsctl/x",
	}
	if t.host != "" {
		names = append(names, "link", "link/x", "link2/trash")
	}
	for _, name := range names {
		for verb, call := range t.verbs(t.ctx, name, "f") {
			moves := verb == "Remove" || verb == "Trash" || strings.HasPrefix(verb, "Rename") || verb == "Lstat" || verb == "ReadLink" || verb == "Symlink"
			if moves && (name == "link" || name == ".wsctl/../.wsctl/x") {
				continue // the link itself is the user's
			}
			if err := call(); err == nil {
				t.Errorf("%s %q works", verb, name)
			} else if code := workspace.CodeOf(err); code != workspace.ErrInvalidPath && code != workspace.ErrDenied && code != workspace.ErrExists {
				t.Errorf("%s %q: %v, want INVALID_PATH", verb, name, err)
			}
		}
	}
	t.wantFile("f", "x")
	if got := t.names(); slices.ContainsFunc(got, func(n string) bool { return strings.HasPrefix(n, ".wsctl") }) {
		t.Errorf("the root lists %q", got)
	}
	if t.host != "" {
		if after := t.plant("cd .wsctl && find . -type f -o -type d | sort"); after != before {
			t.Errorf("the state went from\n%s\nto\n%s", before, after)
		}
	}
	// Names that only look like it are names.
	for _, name := range []string{".wsctl-x", "wsctl", "a/.wsctl"} {
		t.write(name, "mine")
		t.wantFile(name, "mine")
	}
}

func stateAndCommands(t *checker) {
	t = t.fresh(workspace.Options{})
	t.write("kept", "secret")
	t.works("opening") // the state comes to be while commands can run
	t.must(t.ws.Remove(t.ctx, "kept", workspace.RemoveOptions{Trash: true}))
	out := t.sh("find .wsctl/ -mindepth 1; ls -A .wsctl; cat .wsctl/*")
	if len(out.Stdout) != 0 {
		t.Errorf("a command sees in the state: %q", out.Stdout)
	}
	for _, text := range []string{
		"rm -rf .wsctl; test ! -e .wsctl", "mkdir .wsctl/x", "echo x > .wsctl/x", "mv .wsctl moved", "rmdir .wsctl",
		"ln -s /etc .wsctl/x", "chmod 777 .wsctl", "umount .wsctl", "mv f .wsctl/",
	} {
		if out := t.sh(text); out.ExitCode == 0 {
			t.Errorf("%q works", text)
		}
	}
	if t.host != "" {
		if got := t.plant("find .wsctl -type f -exec cat {} +"); !strings.Contains(got, "secret") {
			t.Errorf("the trashed file is gone from the state: %q", got)
		}
	}
	t.works("attacks on the state")
}
