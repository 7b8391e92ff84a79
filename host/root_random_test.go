//go:build linux

package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// Random operations on random names, links and "..", do to the root what they
// do to the model, in every way the system can be.
func TestRootModel(t *testing.T) {
	base := t.TempDir()
	if fi, err := os.Stat("/dev/shm"); err == nil && fi.IsDir() {
		// Flushing to a disk is not what this is about.
		if shm, err := os.MkdirTemp("/dev/shm", "wsctl-test-"); err == nil {
			defer os.RemoveAll(shm)
			base = shm
		}
	}
	name := rapid.Custom(func(t *rapid.T) string {
		n := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "a", "b", "c", "..", "."}), 1, 4).Draw(t, "parts")
		s := strings.Join(n, "/")
		if n[len(n)-1] != "." && rapid.IntRange(0, 9).Draw(t, "slash") == 0 && n[len(n)-1] != ".." {
			s += "/"
		}
		return s
	})
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		dir := filepath.Join(base, fmt.Sprint(runs))
		check(t, os.Mkdir(dir, 0o755))
		defer os.RemoveAll(dir)
		md := modes[runs%len(modes)]
		r, err := host.OpenRootWith(dir, host.RootOptions{LeftoverAge: -1}, md.hooks)
		check(t, err)
		defer r.Close()
		a := &area{t: t, in: dir, r: r}
		m := &model{root: newDir()}
		for range modelSteps {
			step(rt, a, m, name)
		}
		var want []string
		m.root.tree("", &want)
		slices.Sort(want)
		if got := diskTree(t, dir); !slices.Equal(got, want) {
			rt.Fatalf("the disk holds\n%s\nthe model\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// entryName takes off what makes a name lead through its last part.
func entryName(n string) string {
	for strings.HasSuffix(n, "/") || strings.HasSuffix(n, "/.") {
		n = strings.TrimSuffix(strings.TrimSuffix(n, "."), "/")
	}
	return n
}

// step does one operation to both and compares what they answer.
func step(rt *rapid.T, a *area, m *model, names *rapid.Generator[string]) {
	n := names.Draw(rt, "name")
	flag := rapid.Bool().Draw(rt, "flag")
	var got, want string
	var err error
	var code workspace.Code
	switch op := rapid.SampledFrom([]string{"write", "write", "read", "list", "mkdir", "mkdir", "symlink", "remove", "rename", "rename", "append", "create"}).Draw(rt, "op"); op {
	case "write", "append", "create":
		o := workspace.WriteOptions{Append: op == "append", Exclusive: op == "create"}
		content := rapid.StringN(0, 3, 8).Draw(rt, "content")
		err, code = a.write(n, content, o), m.write(n, content, o)
	case "read":
		got, err = a.read(n)
		want, code = m.read(n)
	case "list":
		var list workspace.List
		list, err = a.r.ReadDir(bg, n, workspace.ListOptions{})
		var names []string
		for _, e := range list.Entries {
			names = append(names, e.Name())
		}
		if err == nil {
			got = fmt.Sprint(names)
		}
		want, code = m.list(n)
	case "mkdir":
		err, code = a.r.Mkdir(bg, n, workspace.MkdirOptions{Parents: flag}), m.mkdir(n, flag)
	case "symlink":
		target := names.Draw(rt, "target")
		n = entryName(n)
		if n == "." {
			return
		}
		err, code = a.r.Symlink(bg, target, n), m.symlink(target, n)
	case "remove":
		n = entryName(n)
		err, code = a.r.Remove(bg, n, workspace.RemoveOptions{Recursive: flag}), m.remove(n, flag)
	case "rename":
		n = entryName(n)
		to := entryName(names.Draw(rt, "to"))
		err, code = a.r.Rename(bg, n, to, workspace.RenameOptions{Overwrite: flag}), m.rename(n, to, flag)
	}
	if workspace.CodeOf(err) != code || err == nil && got != want {
		rt.Fatalf("%q: %q, %v; the model says %q, %q", n, got, err, want, code)
	}
}
