//go:build linux

package integration

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

const (
	ours   = "what is inside"
	secret = "the secret outside"
)

// battle is a root that commands in a container attack while the host works in it.
// Beside the root lies a directory outside, which has the names of the one that the
// host works in: there every wrong step is seen.
type battle struct {
	t       *testing.T
	root    *host.Root
	in, out string
	before  string // what is outside
}

// attacks are commands in the container, by name. Both swap the directory d and a
// link to the outside; the second one has moments in which there is neither. Each
// prints how often it did, and makes a file when it has.
var attacks = map[string]string{
	"exchange": "touch attacked; ./exchange d l stop",
	// The host may make a directory d while there is none; it is put away.
	"mv": `n=0
		until test -e stop; do
			mv -T d x; mv -T l d && n=$((n+1)) && touch attacked; mv -T d l || rm -rf d
			until mv -T x d; do rm -rf d; done
		done 2>errors
		echo exchanged $n`,
}

// newBattle makes a root with d, and outside the same; link is the text of the link
// to the outside.
func newBattle(t *testing.T, absolute bool) *battle {
	t.Helper()
	b := &battle{t: t, in: project(t)}
	b.out = filepath.Join(filepath.Dir(b.in), "out")
	link := "../out"
	if absolute {
		link = b.out
	}
	for dir, content := range map[string]string{filepath.Join(b.in, "d"): ours, b.out: secret} {
		for name, text := range map[string]string{"f": content, "sub/f": content, "tree/a/f": content, "only-" + content: content} {
			name = filepath.Join(dir, name)
			b.check(os.MkdirAll(filepath.Dir(name), 0o755))
			b.check(os.WriteFile(name, []byte(text), 0o644))
		}
	}
	b.check(os.WriteFile(filepath.Join(b.in, "plain"), []byte(ours), 0o644))
	b.check(os.Symlink(link, filepath.Join(b.in, "l")))
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(b.in, "exchange"), "./testdata/exchange")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	var err error
	// As the container driver opens it.
	b.root, err = host.OpenRoot(b.in, host.RootOptions{Guest: "/workspace", NoMounts: true})
	b.check(err)
	t.Cleanup(func() { _ = b.root.Close() })
	b.before = b.outside()
	return b
}

func (b *battle) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// outside is all that can be told of what is outside, access times left out.
func (b *battle) outside() string {
	b.t.Helper()
	var all strings.Builder
	b.check(filepath.WalkDir(b.out, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok {
			return errors.New("no stat")
		}
		fmt.Fprintln(&all, name, fi.Mode(), fi.Size(), st.Ino, st.Nlink, st.Uid, st.Gid, st.Mtim, st.Ctim)
		if !d.IsDir() {
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&all, "%x\n", sha256.Sum256(content))
		}
		return nil
	}))
	return all.String()
}

// operation is one thing that the host does, over and over. It reports what it saw
// that it must not see.
type operation struct {
	name string
	do   func(b *battle, i int) (leak string, err error)
}

// expected are the codes with which a guard may answer when names change under it.
var expected = []workspace.Code{
	workspace.ErrOutside, workspace.ErrNotFound, workspace.ErrNotDirectory, workspace.ErrNotFile,
	workspace.ErrExists, workspace.ErrConflict, workspace.ErrBusy,
}

// fight lets the operations run in turn while the attack runs in a container, for
// battleTime, and longer until each got through and the attack did.
func (b *battle) fight(attack string, operations []operation) {
	b.t.Helper()
	stop := filepath.Join(b.in, "stop")
	cmd := command(b.t, "run", "-q", "--root", b.in, "--image", enginetest.BusyBox(b.t), "-c", "touch started; "+attack)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, io.Discard
	b.check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	eventually(b.t, time.Minute, func() string {
		if _, err := os.Lstat(filepath.Join(b.in, "started")); err != nil {
			return "the attack has not begun"
		}
		return ""
	})
	done := make([]int, len(operations))
	refused := map[workspace.Code]int{}
	leaks := 0
	complete := func() bool {
		for _, n := range done {
			if n == 0 {
				return false
			}
		}
		_, err := os.Lstat(filepath.Join(b.in, "attacked"))
		return err == nil
	}
	began := time.Now()
	for i := 0; time.Since(began) < battleTime() || !complete() && time.Since(began) < battleTime()+20*time.Second; i++ {
		o := i % len(operations)
		leak, err := operations[o].do(b, i)
		switch {
		case leak != "":
			if leaks++; leaks == 1 {
				b.t.Errorf("%s: what is outside came in: %.100q", operations[o].name, leak)
			}
		case err == nil:
			done[o]++
		default:
			code := workspace.CodeOf(err)
			refused[code]++
			if !slices.Contains(expected, code) {
				b.t.Errorf("%s: %v", operations[o].name, err)
			}
		}
	}
	b.check(os.WriteFile(stop, nil, 0o644))
	select {
	case err := <-ended:
		b.check(err)
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		b.t.Fatal("the attack does not end")
	}
	var attacked int
	if _, err := fmt.Sscanf(said.String(), "exchanged %d", &attacked); err != nil || attacked == 0 {
		b.t.Errorf("the attack never got through: %q", said.String())
	}
	for o, n := range done {
		if n == 0 {
			b.t.Errorf("%s never got through, so nothing raced: %v", operations[o].name, refused)
		}
	}
	if leaks > 0 {
		b.t.Errorf("%d leaks", leaks)
	}
	if after := b.outside(); after != b.before {
		b.t.Errorf("what is outside was changed\nbefore:\n%s\nafter:\n%s", b.before, after)
	}
	b.t.Logf("%d exchanges, done %v, refused %v", attacked, done, refused)
	nothingLeft(b.t, b.in, 5*time.Second)
}

// battleTime is how long one fight takes.
func battleTime() time.Duration {
	if enginetest.Soak() {
		return 20 * time.Second
	}
	return 2 * time.Second
}

// eachAttack runs a fight for each attack and each way to write the link.
func eachAttack(t *testing.T, operations []operation) {
	for name, attack := range attacks {
		for _, absolute := range []bool{false, true} {
			if absolute && name == "mv" {
				// It is the link that counts, and not how it got there.
				continue
			}
			t.Run(fmt.Sprintf("%s absolute=%v", name, absolute), func(t *testing.T) {
				newBattle(t, absolute).fight(attack, operations)
			})
		}
	}
}

// leaked returns text when it is not from inside.
func leaked(text string) string {
	if strings.Contains(text, secret) {
		return text
	}
	return ""
}

func TestHostReadsWhileCommandsSwapDirectories(t *testing.T) {
	read := func(name string) operation {
		return operation{"read " + name, func(b *battle, _ int) (string, error) {
			f, err := b.root.Open(b.t.Context(), name)
			if err != nil {
				return "", err
			}
			defer f.Close()
			text, err := io.ReadAll(f)
			return leaked(string(text)), err
		}}
	}
	list := func(name string) operation {
		return operation{"list " + name, func(b *battle, _ int) (string, error) {
			list, err := b.root.ReadDir(b.t.Context(), name, workspace.ListOptions{})
			for _, e := range list.Entries {
				if leak := leaked(e.Name()); leak != "" {
					return leak, err
				}
			}
			return "", err
		}}
	}
	eachAttack(t, []operation{
		read("d/f"), read("d/sub/f"), read("d/sub/../f"), read("d/tree/a/f"), list("d"), list("d/."),
		{"stat", func(b *battle, _ int) (string, error) {
			fi, err := b.root.Stat(b.t.Context(), "d/sub/f")
			if err == nil && fi.Size() == int64(len(secret)) {
				return "the size outside", nil
			}
			return "", err
		}},
		{"copy", func(b *battle, _ int) (string, error) {
			if _, err := b.root.Copy(b.t.Context(), "d/f", "copy", workspace.WriteOptions{}); err != nil {
				return "", err
			}
			text, err := os.ReadFile(filepath.Join(b.in, "copy"))
			return leaked(string(text)), err
		}},
	})
}

// changed is an operation that changes something and shows nothing.
func changed(name string, do func(ctx context.Context, r *host.Root, i int) error) operation {
	return operation{name, func(b *battle, i int) (string, error) { return "", do(b.t.Context(), b.root, i) }}
}

func TestHostWritesWhileCommandsSwapDirectories(t *testing.T) {
	put := func(ctx context.Context, r *host.Root, name string, o workspace.WriteOptions) error {
		_, err := r.Write(ctx, name, strings.NewReader("from the host"), o)
		return err
	}
	eachAttack(t, []operation{
		changed("write", func(ctx context.Context, r *host.Root, _ int) error {
			return put(ctx, r, "d/f", workspace.WriteOptions{})
		}),
		changed("new", func(ctx context.Context, r *host.Root, i int) error {
			return put(ctx, r, fmt.Sprintf("d/sub/new%d", i), workspace.WriteOptions{Exclusive: true})
		}),
		changed("append", func(ctx context.Context, r *host.Root, _ int) error {
			return put(ctx, r, "d/sub/log", workspace.WriteOptions{Append: true, MaxBytes: 1 << 20})
		}),
		changed("edit", func(ctx context.Context, r *host.Root, _ int) error {
			_, err := r.Edit(ctx, "d/f", workspace.EditOptions{}, func(old []byte) ([]byte, error) {
				if leak := leaked(string(old)); leak != "" {
					t.Errorf("edit: what is outside came in: %q", leak)
				}
				return []byte("edited"), nil
			})
			return err
		}),
		changed("mkdir", func(ctx context.Context, r *host.Root, i int) error {
			return r.Mkdir(ctx, fmt.Sprintf("d/m%d", i), workspace.MkdirOptions{})
		}),
		changed("mkdir -p", func(ctx context.Context, r *host.Root, i int) error {
			return r.Mkdir(ctx, fmt.Sprintf("d/p%d/q/r", i), workspace.MkdirOptions{Parents: true})
		}),
		changed("chmod", func(ctx context.Context, r *host.Root, _ int) error { return r.Chmod(ctx, "d/f", 0o666) }),
		changed("symlink", func(ctx context.Context, r *host.Root, i int) error {
			return r.Symlink(ctx, "f", fmt.Sprintf("d/l%d", i))
		}),
		changed("copy", func(ctx context.Context, r *host.Root, _ int) error {
			_, err := r.Copy(ctx, "plain", "d/tree/copy", workspace.WriteOptions{})
			return err
		}),
		changed("rename", func(ctx context.Context, r *host.Root, _ int) error {
			return r.Rename(ctx, "d/tree/copy", "d/sub/moved", workspace.RenameOptions{Overwrite: true})
		}),
	})
}

func TestHostRemovesWhileCommandsSwapDirectories(t *testing.T) {
	tree := func(b *battle) {
		// Outside of it there is a tree of that name too. One that cannot be
		// made is made the next time.
		_ = b.root.Mkdir(b.t.Context(), "d/tree/a", workspace.MkdirOptions{Parents: true})
		_, _ = b.root.Write(b.t.Context(), "d/tree/a/f", strings.NewReader(ours), workspace.WriteOptions{})
	}
	remove := func(name, path string, o workspace.RemoveOptions) operation {
		return operation{name, func(b *battle, _ int) (string, error) {
			tree(b)
			return "", b.root.Remove(b.t.Context(), path, o)
		}}
	}
	eachAttack(t, []operation{
		remove("file", "d/tree/a/f", workspace.RemoveOptions{}),
		remove("tree", "d/tree", workspace.RemoveOptions{Recursive: true}),
		remove("part", "d/tree/a", workspace.RemoveOptions{Recursive: true}),
		remove("trash", "d/tree", workspace.RemoveOptions{Trash: true}),
		{"restore", func(b *battle, i int) (string, error) {
			items, err := b.root.Trash(b.t.Context())
			if err != nil || len(items) == 0 {
				return "", errors.Join(err, workspace.ErrNotFound)
			}
			err = b.root.RestoreTrash(b.t.Context(), items[0].ID, fmt.Sprintf("d/back%d", i))
			_, _ = b.root.PurgeTrash(b.t.Context(), host.PurgeOptions{All: true})
			return "", err
		}},
	})
}

// Without the guard the same attack succeeds: what is read by path is, in the end,
// what is outside.
func TestTheSwapsDoReachWhatReadsByPath(t *testing.T) {
	b := newBattle(t, false)
	caught := 0
	b.fight(attacks["exchange"], []operation{{"read by path", func(b *battle, _ int) (string, error) {
		text, err := os.ReadFile(filepath.Join(b.in, "d/f"))
		if leaked(string(text)) == "" {
			return "", errors.Join(err, workspace.ErrNotFound)
		}
		caught++
		return "", nil
	}}})
	if caught == 0 {
		t.Error("no read got what is outside")
	}
}
