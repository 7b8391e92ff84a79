//go:build unix

package drivertest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func list(t *checker) {
	odd := []string{"-rf", "a\nb", "é", "e\u0301", "\xff\xfe", " ", "~", "*", "[id]", "a:1:b", ".dot", "Z", "😀", "%2e", `back\slash`}
	want := slices.Clone(odd)
	for _, name := range odd {
		t.write(name, "")
	}
	for i := range 120 {
		name := fmt.Sprintf("f%d", i)
		want = append(want, name)
	}
	t.plant("i=0; while [ $i -lt 120 ]; do echo > f$i; i=$((i+1)); done")
	slices.Sort(want)
	if got := t.names(); !slices.Equal(got, want) {
		t.Errorf("the list is %q, want %q", got, want)
	}
	for _, limit := range []int{1, 7, len(want) - 1, len(want), len(want) + 1} {
		var got []string
		for after := ""; ; {
			page, err := t.ws.ReadDir(t.ctx, t.dir, workspace.ListOptions{After: after, Limit: limit})
			t.must(err)
			if len(page.Entries) > limit || page.More && len(page.Entries) == 0 {
				t.Fatalf("a page of %d has %d entries, more: %v", limit, len(page.Entries), page.More)
			}
			for _, e := range page.Entries {
				got = append(got, e.Name())
			}
			if !page.More {
				break
			}
			after = got[len(got)-1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d give %d names of %d", limit, len(got), len(want))
		}
	}
	page, err := t.ws.ReadDir(t.ctx, t.dir, workspace.ListOptions{After: "f12x"})
	t.must(err)
	if len(page.Entries) == 0 || page.Entries[0].Name() != "f13" {
		t.Errorf("after a name that is not there the list begins with %v", page.Entries)
	}
	t.must(t.ws.Remove(t.ctx, t.path("f0"), workspace.RemoveOptions{}))
	t.plant("echo xyz > f1; rm -f f2 f3 f4; mkdir f2; ln -s gone f3; mkfifo f4")
	page, err = t.ws.ReadDir(t.ctx, t.dir, workspace.ListOptions{})
	t.must(err)
	kinds := map[string]fs.FileMode{}
	for _, e := range page.Entries {
		kinds[e.Name()] = e.Type()
		if fi, err := e.Info(); e.Name() == "f1" && (err != nil || fi.Size() != 4) {
			t.Errorf("Info of an entry: %v, %v", fi, err)
		}
	}
	for name, kind := range map[string]fs.FileMode{"f1": 0, "f2": fs.ModeDir, "f4": fs.ModeNamedPipe} {
		if kinds[name] != kind {
			t.Errorf("%s is listed as %v, want %v", name, kinds[name], kind)
		}
	}
	_, err = t.ws.ReadDir(t.ctx, t.path("gone"), workspace.ListOptions{})
	t.wantCode("list what is missing", err, workspace.ErrNotFound)
}

func stat(t *checker) {
	t.plant("printf 12345 > f; ln f hard; ln -s f link; ln -s gone dangling; mkdir d")
	fi, err := t.ws.Stat(t.ctx, t.path("link"))
	t.must(err)
	if fi.Size() != 5 || !fi.Mode().IsRegular() || time.Since(fi.ModTime()).Abs() > time.Hour {
		t.Errorf("Stat of a link: %d bytes, mode %v, time %v", fi.Size(), fi.Mode(), fi.ModTime())
	}
	ids := map[string]*workspace.FileStat{}
	for _, name := range []string{"f", "hard", "link", "d"} {
		fi, err := t.ws.Lstat(t.ctx, t.path(name))
		t.must(err)
		st, ok := fi.Sys().(*workspace.FileStat)
		if !ok || st.ID == "" || st.Version == "" || st.Links == 0 || st.Changed.IsZero() {
			t.Fatalf("Sys of %s is %#v", name, fi.Sys())
		}
		if fi.Name() != name {
			t.Errorf("the name of %s is %q", name, fi.Name())
		}
		ids[name] = st
	}
	if ids["f"].ID != ids["hard"].ID || ids["f"].ID == ids["link"].ID || ids["f"].ID == ids["d"].ID {
		t.Errorf("IDs do not tell files apart: %+v", ids)
	}
	if ids["f"].Links != 2 {
		t.Errorf("a file with two names has %d links", ids["f"].Links)
	}
	if got := t.mode("link"); got.Type() != fs.ModeSymlink {
		t.Errorf("Lstat of a link has mode %v", got)
	}
	_, err = t.ws.Stat(t.ctx, t.path("dangling"))
	t.wantCode("Stat of a dangling link", err, workspace.ErrNotFound)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
	fi, err = t.ws.Stat(t.ctx, ".")
	t.must(err)
	if !fi.IsDir() {
		t.Errorf("the root has mode %v", fi.Mode())
	}
}

func openFile(t *checker) {
	t.write("f", "0123456789")
	f, err := t.ws.Open(t.ctx, t.path("f"))
	t.must(err)
	defer f.Close()
	if fi, err := f.Stat(); err != nil || fi.Size() != 10 {
		t.Errorf("Stat: %v, %v", fi, err)
	}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			b := make([]byte, 1)
			if n, err := f.ReadAt(b, int64(i)); n != 1 || err != nil && err != io.EOF || b[0] != byte('0'+i) {
				t.Errorf("ReadAt %d: %q, %v", i, b[:n], err)
			}
		})
	}
	wg.Wait()
	if n, err := f.ReadAt(make([]byte, 4), 8); n != 2 || err != io.EOF {
		t.Errorf("ReadAt over the end: %d, %v", n, err)
	}
	if at, err := f.Seek(-3, io.SeekEnd); at != 7 || err != nil {
		t.Errorf("Seek: %d, %v", at, err)
	}
	if rest, err := io.ReadAll(f); string(rest) != "789" || err != nil {
		t.Errorf("after Seek: %q, %v", rest, err)
	}
	t.must(f.Close())
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a read after Close: %v", err)
	}
}

func readLimit(t *checker) {
	t.write("f", "12345")
	for _, c := range []struct {
		limit int64
		code  workspace.Code
	}{{5, ""}, {6, ""}, {4, workspace.ErrTooLarge}, {-1, workspace.ErrInvalidArgument}} {
		data, err := t.ws.ReadFile(t.ctx, t.path("f"), c.limit)
		t.wantCode(fmt.Sprint("limit ", c.limit), err, c.code)
		if c.code == "" && string(data) != "12345" {
			t.Errorf("limit %d: read %q", c.limit, data)
		}
	}
	t.plant("dd if=/dev/zero of=sparse bs=1 count=1 seek=1000000000000 2>/dev/null || :")
	began := time.Now()
	if _, err := t.ws.Stat(t.ctx, t.path("sparse")); err == nil {
		_, err = t.ws.ReadFile(t.ctx, t.path("sparse"), 0)
		t.wantCode("a sparse file of 1 TB", err, workspace.ErrTooLarge)
		t.within("refusing it", began, time.Second)
		_, err = t.ws.Edit(t.ctx, t.path("sparse"), workspace.EditOptions{}, func(b []byte) ([]byte, error) { return b, nil })
		t.wantCode("an edit of it", err, workspace.ErrTooLarge)
	}
}
