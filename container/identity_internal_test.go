//go:build linux

package container

import (
	"os"
	"testing"

	"github.com/wsctl/wsctl/workspace"
)

// created is a container of d that is made and attached and not started.
func created(t *testing.T, d *Driver) (*box, *plan) {
	t.Helper()
	return createdAs(t, d, func(*createRequest) {})
}

// createdAs is created with another request.
func createdAs(t *testing.T, d *Driver, change func(*createRequest)) (*box, *plan) {
	t.Helper()
	ctx := t.Context()
	d.starting <- struct{}{} // as in Ready: one plan at a time
	p, err := d.plan(ctx)
	<-d.starting
	if err != nil {
		t.Fatal(err)
	}
	req, err := newCreate(p.spec)
	if err != nil {
		t.Fatal(err)
	}
	change(&req)
	b := d.newBox(p)
	if b.id, err = d.create(ctx, req, b.name); err != nil {
		t.Fatal(err)
	}
	if err := b.attach(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.end(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return b, p
}

// A root that is deleted between create and start is an error, and the
// engine does not make it.
func TestRootDeletedBeforeStart(t *testing.T) {
	d := testDriver(t)
	b, _ := created(t, d)
	root := d.root.Name()
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	if err := d.run(t.Context(), b); workspace.CodeOf(err) != workspace.ErrNotFound {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(root); !os.IsNotExist(err) {
		t.Errorf("the root was made: %v", err)
	}
}

// The engine looks the root's name up again when it
// starts. Whoever swaps the directory for that moment gets nothing run in his.
func TestRootSwappedDuringStart(t *testing.T) {
	d := testDriver(t)
	b, p := created(t, d)
	root := d.root.Name()
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	rename(root, root+".held")
	for _, dir := range []string{root, root + "/.wsctl"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	rename(root, root+".other")
	rename(root+".held", root)
	if err := d.root.Check(); err != nil {
		t.Fatal(err) // the name is right again: only the mount can tell
	}
	if err := d.verify(t.Context(), b, p); workspace.CodeOf(err) != workspace.ErrUnavailable {
		t.Errorf("got %v", err)
	}
	for _, dir := range []string{root, root + ".other"} {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Errorf("%s holds %v, %v", dir, entries, err)
		}
	}
}

// Where device and inode cannot be compared, a file with a name that
// nobody can know tells whether the container has the same directory.
func TestNonce(t *testing.T) {
	d := testDriver(t)
	b, p := created(t, d)
	if err := d.run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := d.verify(t.Context(), b, p); err != nil {
		t.Fatal(err)
	}
	if same, err := d.nonce(t.Context(), b); err != nil || !same {
		t.Errorf("the same directory: %v, %v", same, err)
	}
	other := testDriver(t)
	if same, err := other.nonce(t.Context(), b); err != nil || same {
		t.Errorf("another directory: %v, %v", same, err)
	}
	for _, d := range []*Driver{d, other} {
		entries, err := os.ReadDir(d.root.Name())
		if err != nil || len(entries) > 1 {
			t.Errorf("the root holds %v, %v", entries, err)
		}
	}
}
