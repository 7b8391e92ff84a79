//go:build linux

package host_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// FuzzRootSpelling gives any text to the root as a name. Both ways to resolve
// it agree, what they find is what the kernel finds, and it lies inside.
func FuzzRootSpelling(f *testing.F) {
	for _, name := range []string{
		".", "f", "d/g", "d/../f", "l/..", "l/../f", "up", "up/out/secret", "out/secret", "loop", "a//b", "f/", "l/",
		"..", "../out", ".wsctl", ".WSCTL ", "d/.wsctl", "\x00", "\xff", strings.Repeat("x", 256), strings.Repeat("d/../", 500), "/f", "dang/x", "abs/f",
	} {
		f.Add(name)
	}
	tree := []string{"f = F", "d/g = G", "d/e/h = H", "l -> d/e", "up -> ..", "out -> OUT", "loop -> loop", "dang -> no", "abs -> ROOT", "d/back -> ../l/h"}
	a := newArea(f, host.TestHooks{}, host.RootOptions{}, tree...)
	walk, err := host.OpenRootWith(a.in, host.RootOptions{}, host.TestHooks{Openat2: syscall.ENOSYS})
	check(f, err)
	f.Cleanup(func() { walk.Close() })
	f.Fuzz(func(t *testing.T, name string) {
		fast, err := a.r.Stat(bg, name)
		slow, slowErr := walk.Stat(bg, name)
		if workspace.CodeOf(err) != workspace.CodeOf(slowErr) {
			t.Fatalf("%q: openat2 says %v, the walk %v", name, err, slowErr)
		}
		if err != nil {
			if e := (*workspace.Error)(nil); !errors.As(err, &e) || e.Path != name {
				t.Fatalf("%q: %v", name, err)
			}
			return
		}
		var st unix.Stat_t
		check(t, unix.Stat(a.in+"/"+name, &st))
		for _, fi := range []fs.FileInfo{fast, slow} {
			if id := fi.Sys().(*workspace.FileStat).ID; id != idOf(st) {
				t.Fatalf("%q: found %s, the kernel %s", name, id, idOf(st))
			}
		}
		for _, outside := range []string{a.out, a.dir, a.out + "/secret", "/"} {
			var st unix.Stat_t
			check(t, unix.Stat(outside, &st))
			if fast.Sys().(*workspace.FileStat).ID == idOf(st) {
				t.Fatalf("%q leads to %s", name, outside)
			}
		}
	})
}

func idOf(st unix.Stat_t) string {
	const hex = "0123456789abcdef"
	text := func(v uint64) string {
		if v == 0 {
			return "0"
		}
		var b []byte
		for ; v > 0; v /= 16 {
			b = append([]byte{hex[v%16]}, b...)
		}
		return string(b)
	}
	return text(st.Dev) + ":" + text(st.Ino)
}

// FuzzRootNames makes a file of any name, and finds the same bytes again in
// the list, and in the record of the trash, which is JSON.
func FuzzRootNames(f *testing.F) {
	for _, name := range []string{"a", "\xff\xfe", "a\nb", "\"", "é", "e\u0301", "\u2028", " ", "-rf", "<&>", "\x7f", strings.Repeat("n", 255)} {
		f.Add(name)
	}
	a := newArea(f, host.TestHooks{}, host.RootOptions{}, "d/")
	f.Fuzz(func(t *testing.T, base string) {
		name := "d/" + base
		err := a.write(name, base, workspace.WriteOptions{Exclusive: true})
		if strings.ContainsAny(base, "/\x00") || base == "" || base == "." || base == ".." || len(base) > 255 {
			if err == nil {
				check(t, os.RemoveAll(a.path("d")))
				check(t, os.Mkdir(a.path("d"), 0o755))
			}
			return
		}
		check(t, err)
		list, err := a.r.ReadDir(bg, "d", workspace.ListOptions{})
		check(t, err)
		if len(list.Entries) != 1 && !host.IsTemp(base) || len(list.Entries) == 1 && list.Entries[0].Name() != base {
			t.Fatalf("%q is listed as %v", base, list.Entries)
		}
		check(t, a.r.Remove(bg, name, workspace.RemoveOptions{Trash: true}))
		items, err := a.r.Trash(bg)
		check(t, err)
		if len(items) != 1 || items[0].Path != name {
			t.Fatalf("%q is in the trash as %+v", name, items)
		}
		if _, err := json.Marshal(items); err != nil {
			t.Fatal(err)
		}
		_, err = a.r.PurgeTrash(bg, host.PurgeOptions{All: true})
		check(t, err)
	})
}
