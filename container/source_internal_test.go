//go:build linux

package container

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/workspace"
)

// A command can put a link where the next run mounts something from. It is not
// followed out of its workspace, whichever that is; links of the user's are.
func TestLinkOfACommandIsNoSource(t *testing.T) {
	b := newMountBench(t)
	secret := mkdir(t, filepath.Join(b.top, "secret", "below"), 0o755)
	other := mkdir(t, filepath.Join(b.top, "other"), 0o755)
	mkdir(t, filepath.Join(other, ".wsctl"), 0o700)
	mkdir(t, filepath.Join(other, "deep", "er"), 0o755)
	link := func(target string, name ...string) string {
		t.Helper()
		at := filepath.Join(name...)
		if err := os.Symlink(target, at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	root := b.root.Real
	out := link(filepath.Dir(secret), root, "out")
	in := link("sub", root, "in")
	for source, ok := range map[string]bool{
		secret:                             true,
		link(secret, b.top, "mine"):        true,
		filepath.Join(root, "sub"):         true,
		in:                                 true,
		link(in, b.top, "through"):         true,
		out:                                false,
		out + "/below":                     false,
		link("../../secret", root, "up"):   false,
		link(out, b.top, "mine-to-theirs"): false,
		link("out/below", root, "sub", "..", "two"): false,
		link(secret, other, "deep", "er", "x"):      false,
		link("..", other, "deep", "y"):              true,
	} {
		got, err := b.plan(t, placePolicy{}, Mount{Source: source, Target: "/data", Writable: true})
		if ok && err != nil || !ok && workspace.CodeOf(err) != workspace.ErrDenied {
			t.Errorf("%s: %v, want ok: %v", source, err, ok)
		}
		real, _ := filepath.EvalSymlinks(source)
		want, idErr := identify(real)
		if last := len(got.Mounts) - 1; ok && (idErr != nil || got.Mounts[last].Source != real || got.Sources["/data"] != want) {
			t.Errorf("%s: mounts %+v of %+v", source, got.Mounts[last], got.Sources["/data"])
		}
	}
	for _, source := range []string{link("loop", root, "loop"), root + "/none", root + "/in/none", link("/none", root, "dangling")} {
		if _, err := b.plan(t, placePolicy{}, Mount{Source: source, Target: "/data"}); err == nil {
			t.Errorf("%s is taken", source)
		}
	}
}

// Where the mount cannot be looked at, nothing is mounted that a command can swap.
func TestUnseenSourceInAWorkspace(t *testing.T) {
	b := newMountBench(t)
	free := mkdir(t, filepath.Join(b.top, "free"), 0o755)
	for source, ok := range map[string]bool{free: true, filepath.Join(b.root.Real, "sub"): false} {
		_, err := planMounts(t.Context(), mountRequest{Root: b.root, Home: b.home, User: []Mount{{Source: source, Target: "/data"}}, Unseen: true})
		if ok && err != nil || !ok && workspace.CodeOf(err) != workspace.ErrDenied {
			t.Errorf("%s: %v, want ok: %v", source, err, ok)
		}
	}
}

// The engine looks the name of a source up again when it starts. Who swaps what is
// there in between gets nothing run beside it.
func TestMountSwappedDuringStart(t *testing.T) {
	for _, swap := range []bool{false, true} {
		d := testDriver(t)
		source := filepath.Join(d.root.Name(), "data")
		secret := filepath.Join(filepath.Dir(d.root.Name()), "secret")
		for _, dir := range []string{source, secret} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		d.opts.Mounts = []Mount{{Source: source, Target: "/data", Writable: true}}
		b, p := created(t, d)
		if swap {
			if err := errors.Join(os.Remove(source), os.Symlink(secret, source)); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		err := d.verify(t.Context(), b, p)
		told := workspace.CodeOf(err) == workspace.ErrUnavailable && strings.Contains(err.Error(), "source of /data")
		if told != swap || !swap && err != nil {
			t.Errorf("swapped: %v, got %v", swap, err)
		}
	}
}

// A root is not reached through a link that commands of another workspace may have
// planted; a link of the user's own is followed.
func TestLinkOfACommandIsNoRoot(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hostile/.wsctl", "hostile/inside", "victim", "user"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"hostile/out": "../victim", "hostile/in": "inside", "user/link": "../victim", "hostile/chain": "in", "user/into": "../hostile/out"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, code := range map[string]workspace.Code{
		"victim": "", "user/link": "", "hostile/in": "", "hostile/chain": "", "hostile/inside": "",
		"hostile/out": workspace.ErrDenied, "user/into": workspace.ErrDenied,
	} {
		f, err := checkRoot(t.Context(), filepath.Join(dir, name), placePolicy{})
		if workspace.CodeOf(err) != code {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}
