//go:build unix

package drivertest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing/fstest"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func fileCases() []testCase {
	return []testCase{
		{name: "bytes", run: fileBytes, rule: "What is written is read back byte for byte, whatever the bytes."},
		{name: "fstest", run: fsTest, rule: "FS is sorted, consistent and clean by fstest.TestFS, and takes fs.ValidPath names only."},
		{name: "one tree", run: oneTree, rule: "A file and the same file in the workspace's commands are the same bytes at once, in both directions."},
		{name: "mode", run: fileMode, rule: "A new file gets the permission bits asked for, under the umask; an old one keeps its mode."},
		{name: "special bits", run: specialBits, rule: "Special mode bits are never created and never survive a write or a copy."},
		{name: "read-only", run: readOnlyTarget, rule: "A read-only target is DENIED without Force, whoever the caller is; with Force it is replaced and keeps its mode."},
		{name: "exclusive", run: exclusiveWrite, rule: "Exclusive refuses what exists with EXISTS, and of many at once one wins."},
		{name: "if version", run: ifVersion, rule: "A write or edit with IfVersion is CONFLICT unless the file is still that version, and then changes nothing."},
		{name: "version", run: versions, rule: "The Version changes with the content, also when size and times are set back."},
		{name: "append", run: appendWrite, rule: "Append keeps the old content before the new, and makes a missing file."},
		{name: "parents", run: writeParents, rule: "A write makes the directories above the file; a file on the way is NOT_A_DIRECTORY."},
		{name: "failed write", run: failedWrite, rule: "A write that fails leaves the old file whole, nothing beside it, and tells the reader's own error."},
		{name: "atomic", run: atomicWrite, rule: "A reader sees the old file or the new one, never a part, and an open file stays what it was.", limit: 30 * time.Second},
		{name: "hard link", run: hardLinkWrite, rule: "A hard link is replaced, not written through: its other names keep content and mode."},
		{name: "write through link", run: writeThroughLink, rule: "A write or edit through a link inside the root changes the target and keeps the link."},
		{name: "edit", run: editFile, rule: "An edit replaces what it was given; its own error comes back as it is and changes nothing; its bounds hold."},
		{name: "edits are serialised", run: editsAreSerialised, rule: "Edits of one file wait for each other by identity, not by spelling: none is lost."},
		{name: "edit conflict", run: editConflict, rule: "A change by somebody else between an edit's read and its rename is CONFLICT, and theirs stays."},
		{name: "mkdir", run: mkdir, rule: "Mkdir makes one directory, with Parents all; a taken name is EXISTS, with Parents a directory is success."},
		{name: "remove", run: remove, rule: "Remove takes a file, a link (never what it leads to) or an empty directory; NOT_EMPTY unless recursive; never the root."},
		{name: "trash", run: trash, rule: "Trash takes an entry out of the tree without showing where it is kept."},
		{name: "rename", run: rename, rule: "Rename moves the entry itself, EXISTS without Overwrite, and a failed one leaves both as they were."},
		{name: "copy", run: copyFile, rule: "Copy takes content and mode of a regular file, and obeys the options of a write."},
		{name: "chmod", run: chmod, rule: "Chmod sets the permission bits of a file or directory and no others."},
		{name: "symlink", run: symlink, rule: "Symlink makes a link that leads inside, OUTSIDE_ROOT otherwise; ReadLink gives its text and is INVALID_PATH for anything else."},
		{name: "list", run: list, rule: "A list is sorted by name, whole, and pages join without gap or repeat."},
		{name: "held directory", run: heldDirectory, rule: "A held directory gives what lies below it, sorted and with types, and follows no link; it works with every driver."},
		{name: "stat", run: stat, rule: "Stat follows links and Lstat does not; Sys is a *FileStat that tells files apart."},
		{name: "open", run: openFile, rule: "An open file can be read at any place by many, and is closed once."},
		{name: "read limit", run: readLimit, rule: "A read is bounded by its limit to the byte: TOO_LARGE before anything is loaded."},
		{name: "irregular", run: irregular, rule: "FIFO, socket and device are NOT_A_FILE before they are opened: nothing ever blocks, and whoever waits at the other end keeps waiting."},
		{name: "directory is no file", run: directoryIsNoFile, rule: "A directory is NOT_A_FILE to whatever reads or writes files, and a file NOT_A_DIRECTORY to what lists."},
		{name: "state is closed", run: stateIsClosed, rule: "The workspace's own state is closed to every verb in every spelling and never listed."},
		{name: "state and commands", run: stateAndCommands, needs: []capability{needMasked()}, rule: "Commands can neither see nor change the workspace's own state."},
		{name: "aborted", run: abortedVerbs, rule: "A file verb whose context has ended is ABORTED, wraps the context's error and changes nothing."},
	}
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func fileBytes(t *checker) {
	for name, content := range map[string]string{
		"empty":  "",
		"nul":    "a\x00b\x00",
		"crlf":   "a\r\nb\rc\n",
		"bom":    "\xef\xbb\xbfx",
		"latin1": "caf\xe9",
		"escape": `'\0' "\n" \\ \title {"a":"\u0000"} $& $1 ${0} %s`,
		"random": string(randomBytes(300_000)),
	} {
		t.write(name, content)
		t.wantFile(name, content)
		data, err := fs.ReadFile(t.ws.FS(t.ctx), t.path(name))
		t.must(err)
		t.wantBytes("FS "+name, data, []byte(content))
	}
	if got := t.names(); len(got) != 7 {
		t.Errorf("the directory holds %q", got)
	}
}

func fsTest(t *checker) {
	for _, name := range []string{"a", "d/b", "d/e/f", "d/z", ".hidden", "Z", "é"} {
		t.write("tree/"+name, name)
	}
	t.must(t.ws.Mkdir(t.ctx, t.path("tree/empty"), workspace.MkdirOptions{}))
	t.must(t.ws.Symlink(t.ctx, "d/b", t.path("tree/link")))
	t.must(t.ws.Symlink(t.ctx, "d", t.path("tree/dirlink")))
	sub, err := fs.Sub(t.ws.FS(t.ctx), t.path("tree"))
	t.must(err)
	if err := fstest.TestFS(sub, "a", "d/b", "d/e/f", ".hidden", "Z", "é", "link"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", "/", "./a", "d/", "d//b", "d/../a", "..", t.ws.Root()} {
		if _, err := fs.Stat(t.ws.FS(t.ctx), name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("FS takes %q: %v", name, err)
		}
	}
}

func oneTree(t *checker) {
	for i := range 8 {
		want := fmt.Sprintf("round %d\n", i)
		t.write("f", want)
		if got := t.ok("cat f"); got != want {
			t.Fatalf("a command reads %q right after %q was written", got, want)
		}
		t.ok(fmt.Sprintf("echo command %d > f; chmod 600 f", i))
		t.wantFile("f", fmt.Sprintf("command %d\n", i))
		if t.host != "" {
			name := filepath.Join(t.host, t.dir, "f")
			data, err := os.ReadFile(name)
			t.must(err)
			t.wantBytes("the file on this machine", data, fmt.Appendf(nil, "command %d\n", i))
			t.must(os.WriteFile(name, fmt.Appendf(nil, "host %d\n", i), 0o644))
			t.wantFile("f", fmt.Sprintf("host %d\n", i))
			if got := t.ok("cat f"); got != fmt.Sprintf("host %d\n", i) {
				t.Fatalf("a command reads %q after this machine wrote", got)
			}
		}
	}
	t.must(t.ws.Remove(t.ctx, t.path("f"), workspace.RemoveOptions{}))
	t.ok("test ! -e f && mkdir d && mv d e")
	t.must(t.ws.Rename(t.ctx, t.path("e"), t.path("g"), workspace.RenameOptions{}))
	t.ok("test -d g && test ! -e e")
}

// mode is the mode of a file in the case's directory.
func (t *checker) mode(name string) fs.FileMode {
	t.Helper()
	fi, err := t.ws.Lstat(t.ctx, t.path(name))
	t.must(err)
	return fi.Mode()
}

func fileMode(t *checker) {
	for _, perm := range []fs.FileMode{0o600, 0o700, 0o400} {
		name := perm.String()
		_, err := t.ws.WriteFile(t.ctx, t.path(name), []byte("x"), workspace.WriteOptions{Perm: perm})
		t.must(err)
		if got := t.mode(name); got != perm {
			t.Errorf("a new file with %v has %v", perm, got)
		}
	}
	// What the umask leaves of the default is what a command's umask of the
	// same value would; it takes nothing from the owner.
	t.write("default", "x")
	if got := t.mode("default"); got&0o700 != 0o600 || got&0o111 != 0 {
		t.Errorf("a new file without a mode has %v", got)
	}
	for _, perm := range []fs.FileMode{0o755, 0o640, 0o600, 0o666} {
		t.plant(fmt.Sprintf("echo old > kept; chmod %o kept", perm))
		fi, err := t.ws.WriteFile(t.ctx, t.path("kept"), []byte("new"), workspace.WriteOptions{Perm: 0o777})
		t.must(err)
		if got := t.mode("kept"); got != perm || fi.Mode() != perm {
			t.Errorf("a file of mode %v has %v after a write, which reports %v", perm, got, fi.Mode())
		}
		_, err = t.ws.Edit(t.ctx, t.path("kept"), workspace.EditOptions{}, func([]byte) ([]byte, error) { return []byte("x"), nil })
		t.must(err)
		if got := t.mode("kept"); got != perm {
			t.Errorf("a file of mode %v has %v after an edit", perm, got)
		}
	}
}

func specialBits(t *checker) {
	const special = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	t.plant("echo x > suid && chmod 4755 suid && echo x > sgid && chmod 2755 sgid || :")
	for _, name := range []string{"suid", "sgid"} {
		_, err := t.ws.Copy(t.ctx, t.path(name), t.path(name+"-copy"), workspace.WriteOptions{})
		t.must(err)
		if got := t.mode(name + "-copy"); got&special != 0 {
			t.Errorf("the copy of %s has mode %v", name, got)
		}
		t.write(name, "new")
		if got := t.mode(name); got&special != 0 {
			t.Errorf("%s has mode %v after a write", name, got)
		}
	}
	t.plant("chmod 6755 suid || :")
	t.must(t.ws.Chmod(t.ctx, t.path("suid"), 0o755))
	if got := t.mode("suid"); got != 0o755 {
		t.Errorf("after Chmod 0755 a set-uid file has mode %v", got)
	}
}

func readOnlyTarget(t *checker) {
	t.plant("echo old > f; chmod 444 f")
	_, err := t.ws.WriteFile(t.ctx, t.path("f"), []byte("new"), workspace.WriteOptions{})
	t.wantCode("write", err, workspace.ErrDenied)
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v is not fs.ErrPermission", err)
	}
	_, err = t.ws.WriteFile(t.ctx, t.path("f"), []byte("new"), workspace.WriteOptions{Append: true})
	t.wantCode("append", err, workspace.ErrDenied)
	change := func([]byte) ([]byte, error) { return []byte("edited"), nil }
	_, err = t.ws.Edit(t.ctx, t.path("f"), workspace.EditOptions{}, change)
	t.wantCode("edit", err, workspace.ErrDenied)
	t.write("g", "g")
	_, err = t.ws.Copy(t.ctx, t.path("g"), t.path("f"), workspace.WriteOptions{})
	t.wantCode("copy", err, workspace.ErrDenied)
	t.wantFile("f", "old\n")
	_, err = t.ws.WriteFile(t.ctx, t.path("f"), []byte("forced"), workspace.WriteOptions{Force: true})
	t.must(err)
	t.wantFile("f", "forced")
	_, err = t.ws.Edit(t.ctx, t.path("f"), workspace.EditOptions{Force: true}, change)
	t.must(err)
	t.wantFile("f", "edited")
	if got := t.mode("f"); got != 0o444 {
		t.Errorf("forced, its mode is %v", got)
	}
}

var errOfReader = errors.New("the source broke")
