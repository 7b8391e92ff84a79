//go:build linux

package host_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

func TestRootTrash(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "f\xff = file", "d/e/g = 12345", "d/l -> e", "ro/x")
	check(t, os.Chmod(a.path("ro"), 0o500))
	for _, name := range []string{"f\xff", "d", "ro"} {
		check(t, a.r.Remove(bg, name, workspace.RemoveOptions{Trash: true}))
	}
	if n := a.names("."); len(n) != 1 {
		t.Errorf("left: %q", n)
	}
	items, err := a.r.Trash(bg)
	check(t, err)
	if len(items) != 3 || items[0].Path != "f\xff" || items[1].Path != "d" || items[1].Size != 5 || !items[1].Mode.IsDir() {
		t.Fatalf("the trash holds %+v", items)
	}
	check(t, a.r.RestoreTrash(bg, items[0].ID, ""))
	check(t, a.r.RestoreTrash(bg, items[2].ID, ""))
	wantMode(t, a, "ro", 0o500)
	check(t, os.Chmod(a.path("ro"), 0o700))
	check(t, os.Mkdir(a.path("d"), 0o755))
	wantCode(t, a.r.RestoreTrash(bg, items[1].ID, ""), workspace.ErrExists)
	wantCode(t, a.r.RestoreTrash(bg, items[1].ID, "../out/d"), workspace.ErrOutside)
	for _, id := range []string{"..", "a/b", ".", "", "../pending"} {
		wantCode(t, a.r.RestoreTrash(bg, id, "z"), workspace.ErrInvalidArgument)
	}
	wantCode(t, a.r.RestoreTrash(bg, "none", "z"), workspace.ErrNotFound)
	check(t, a.r.RestoreTrash(bg, items[1].ID, "back/here"))
	if got := a.content("back/here/e/g"); got != "12345" {
		t.Errorf("restored: %q", got)
	}
	if items, err := a.r.Trash(bg); len(items) != 0 || err != nil {
		t.Errorf("left in the trash: %v, %v", items, err)
	}
	if n := a.names(".wsctl/trash"); len(n) != 0 {
		t.Errorf("left in the trash: %v", n)
	}
}

func TestRootPurge(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{})
	for i := range 5 {
		check(t, a.write(fmt.Sprint(i), "1234567890", workspace.WriteOptions{}))
		check(t, a.r.Remove(bg, fmt.Sprint(i), workspace.RemoveOptions{Trash: true}))
	}
	gone, err := a.r.PurgeTrash(bg, host.PurgeOptions{OlderThan: time.Hour})
	check(t, err)
	if len(gone) != 0 {
		t.Errorf("purged young items: %v", gone)
	}
	gone, err = a.r.PurgeTrash(bg, host.PurgeOptions{MaxBytes: 25})
	check(t, err)
	if len(gone) != 3 || gone[0].Path != "0" {
		t.Errorf("purged by size: %v", gone)
	}
	gone, err = a.r.PurgeTrash(bg, host.PurgeOptions{OlderThan: 1})
	check(t, err)
	if len(gone) != 2 {
		t.Errorf("purged by age: %v", gone)
	}
	check(t, os.MkdirAll(a.path(".wsctl/trash/damaged/x"), 0o755))
	check(t, os.WriteFile(a.path(".wsctl/trash/file"), nil, 0o644))
	_, err = a.r.PurgeTrash(bg, host.PurgeOptions{All: true})
	check(t, err)
	if n := a.names(".wsctl/trash"); len(n) != 0 {
		t.Errorf("left: %v", n)
	}
	_, err = a.r.PurgeTrash(bg, host.PurgeOptions{OlderThan: -1})
	wantCode(t, err, workspace.ErrInvalidArgument)
}

// Only what is ours, old, regular and has one name is swept; what was on its
// way is kept.
func TestRootLeftovers(t *testing.T) {
	ours, linked, dir := host.TempName(), host.TempName(), host.TempName()
	young := "sub/" + host.TempName()
	moved, wanted := host.NewPendingName("moved"), host.NewPendingName("delete")
	a := newArea(t, host.TestHooks{}, host.RootOptions{LeftoverAge: -1}, "sub/deeper/"+ours, linked, dir+"/",
		".wsctl-tmp-1234", ".wsctl-tmp-"+strings.Repeat("0", 40), "sub/f")
	check(t, os.Link(a.path(linked), a.path("second")))
	_, err := a.r.ID()
	check(t, err)
	a.grow(".wsctl/pending/"+moved+"/f = kept", ".wsctl/pending/"+wanted+"/d/f", ".wsctl/pending/mine/f", "sub/.wsctl/f")
	check(t, a.r.Close())
	time.Sleep(1100 * time.Millisecond) // names in pending tell whole seconds
	check(t, os.WriteFile(a.path(young), nil, 0o644))
	for _, c := range []struct {
		off  string
		age  time.Duration
		want int
	}{{"", time.Hour, 0}, {"", time.Second, 1}} {
		r, err := host.OpenRootWith(a.in, host.RootOptions{LeftoverAge: c.age}, host.TestHooks{Off: c.off})
		check(t, err)
		left, err := r.Leftovers(bg)
		check(t, err)
		check(t, r.Close())
		if len(left.Removed) != c.want || len(left.Recovered) != c.want || len(left.Finished) != c.want {
			t.Errorf("age %v: %+v", c.age, left)
		}
		if c.want == 1 {
			if left.Removed[0] != "sub/deeper/"+ours || a.content(left.Recovered[0]+"/f") != "kept" {
				t.Errorf("%+v", left)
			}
		}
	}
	for _, name := range []string{linked, dir, young, ".wsctl-tmp-1234", ".wsctl-tmp-" + strings.Repeat("0", 40), "sub/f", ".wsctl/pending/mine/f", "sub/.wsctl/f"} {
		if _, err := os.Lstat(a.path(name)); err != nil {
			t.Error("swept what is not ours:", err)
		}
	}
	if names := a.names(".wsctl/pending"); len(names) != 2 {
		t.Errorf("pending holds %v", names)
	}
	r, err := host.OpenRootWith(a.in, host.RootOptions{LeftoverAge: 1}, host.TestHooks{Off: "temp"})
	check(t, err)
	defer r.Close()
	_, err = r.Leftovers(bg)
	check(t, err)
	if _, err := os.Lstat(a.path("sub/f")); err == nil {
		t.Error("without the guard a file of the user is not swept: the test proves nothing")
	}
}
