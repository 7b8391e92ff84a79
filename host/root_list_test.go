//go:build linux

package host_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

func TestRootList(t *testing.T) {
	temp := host.TempName()
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "d/b = 12", "d/a", "d/c/", "d/l -> a", "d/"+temp, "d/.wsctl-tmp-mine", "d/dir-"+temp+"/")
	check(t, os.Mkdir(a.path("d/"+host.TempName()), 0o755)) // a directory is nobody's temporary
	list, err := a.r.ReadDir(bg, "d", workspace.ListOptions{})
	check(t, err)
	var names []string
	for _, e := range list.Entries {
		names = append(names, e.Name())
		fi, err := e.Info()
		check(t, err)
		if fi.Name() != e.Name() || fi.IsDir() != e.IsDir() {
			t.Errorf("%s: entry and info differ", e.Name())
		}
	}
	if len(names) != 7 || list.More || slices.Contains(names, temp) {
		t.Errorf("listed: %v", names)
	}
	var paged []string
	for after := ""; ; {
		page, err := a.r.ReadDir(bg, "d", workspace.ListOptions{After: after, Limit: 2})
		check(t, err)
		for _, e := range page.Entries {
			paged = append(paged, e.Name())
			after = e.Name()
		}
		if !page.More {
			break
		}
	}
	if fmt.Sprint(paged) != fmt.Sprint(names) {
		t.Errorf("in pages: %v\nat once:  %v", paged, names)
	}
	_, err = a.r.ReadDir(bg, "d/a", workspace.ListOptions{})
	wantCode(t, err, workspace.ErrNotDirectory)
	_, err = a.r.ReadDir(bg, "d", workspace.ListOptions{Limit: -1})
	wantCode(t, err, workspace.ErrInvalidArgument)
}

// A directory of many entries is paged in bounded memory, sorted, complete.
func TestRootListLarge(t *testing.T) {
	n := 20_000
	if enginetest.Soak() {
		n = 200_000
	}
	a := newArea(t, host.TestHooks{}, host.RootOptions{})
	fill(t, a.in, "d", 1)
	// Hard links are the cheapest entries to make.
	for i := 1; i < n; i++ {
		check(t, unix.Link(a.path(fmt.Sprintf("d/file-%06d", i-i%50_000)), a.path(fmt.Sprintf("d/file-%06d", i))))
		if (i+1)%50_000 == 0 {
			check(t, os.WriteFile(a.path(fmt.Sprintf("d/file-%06d", i+1)), nil, 0o644))
			i++
		}
	}
	page, err := a.r.ReadDir(bg, "d", workspace.ListOptions{After: "file-010000", Limit: 100})
	check(t, err)
	if len(page.Entries) != 100 || !page.More || page.Entries[0].Name() != "file-010001" || page.Entries[99].Name() != "file-010100" {
		t.Errorf("a page of %d from %v, more: %v", len(page.Entries), page.Entries[0], page.More)
	}
	all, err := a.r.ReadDir(bg, "d", workspace.ListOptions{})
	check(t, err)
	if len(all.Entries) < n {
		t.Errorf("%d of %d entries", len(all.Entries), n)
	}
	ctx := &countdown{Context: bg, n: 3}
	_, err = a.r.ReadDir(ctx, "d", workspace.ListOptions{})
	wantCode(t, err, workspace.ErrAborted)
	check(t, a.r.Remove(bg, "d", workspace.RemoveOptions{Recursive: true}))
}
