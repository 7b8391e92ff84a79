//go:build linux

package snapshot_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// An archive of a snapshot, taken into another root's store, gives the very tree;
// any tar reads it.
func TestExportImport(t *testing.T) {
	a := newArea(t, snapshot.Options{Exclude: []string{"*.log"}}, "a = 1", "d/f = 2", "e/", "l -> ../out", "big = "+strings.Repeat("0123456789", 300_000), "bad\xffname = x", "x.log = y")
	check(t, os.Chmod(a.path("a"), 0o750))
	a.old("e")
	first, err := a.Save(bg, workspace.SaveOptions{Label: "one", Turn: "3", Metadata: json.RawMessage(`{"k":[1]}`)})
	check(t, err)
	a.remove("x.log")
	want := a.manifest()[1:]
	var archive bytes.Buffer
	if _, err := a.store.Export(bg, first.ID, &archive); err != nil {
		t.Fatal(err)
	}
	b := newArea(t, snapshot.Options{})
	got, err := b.store.Import(bg, bytes.NewReader(archive.Bytes()), snapshot.ImportOptions{})
	check(t, err)
	if got.ID == first.ID || got.Label != "one" || got.Turn != "3" || string(got.Metadata) == "" || !slices.Equal(got.Exclude, first.Exclude) || got.WorkspaceID == first.WorkspaceID || got.Stats.Bytes != first.Stats.Bytes {
		t.Errorf("got %+v\nwas %+v", got, first)
	}
	b.restore(got.ID)
	if tree := b.manifest()[1:]; !slices.Equal(tree, want) {
		t.Errorf("got\n%.500s\nwant\n%.500s", strings.Join(tree, "\n"), strings.Join(want, "\n"))
	}
	if v, err := b.store.Verify(bg); err != nil || len(v.Problems) != 0 {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

// entry is one of a hostile archive.
type entry struct {
	name, link, content string
	kind                byte
}

const goodHead = `{"wsctlSnapshot":1,"id":"x"}`

// archiveOf makes an archive of entries, after a good beginning.
func archiveOf(t *testing.T, head string, list ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	check(t, err)
	w := tar.NewWriter(z)
	all := append([]entry{{name: "wsctl-snapshot.json", content: head}, {name: "tree/", kind: tar.TypeDir}}, list...)
	for _, e := range all {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: 0o6755, Size: int64(len(e.content)), Format: tar.FormatPAX}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		check(t, w.WriteHeader(h))
		_, err := io.WriteString(w, e.content)
		check(t, err)
	}
	check(t, w.Close())
	check(t, z.Close())
	return b.Bytes()
}

// Hostile archives are refused, and nothing of them is kept.
func TestHostileArchives(t *testing.T) {
	a := newArea(t, snapshot.Options{})
	outside := filepath.Join(filepath.Dir(a.dir), "outside")
	good := archiveOf(t, goodHead, entry{name: "tree/f", content: "x"})
	bomb := entry{name: "tree/zeros", content: strings.Repeat("\x00", 8<<20)}
	for what, c := range map[string]struct {
		archive []byte
		code    workspace.Code
	}{
		"up":               {archiveOf(t, goodHead, entry{name: "tree/../x"}), workspace.ErrCorrupt},
		"up from below":    {archiveOf(t, goodHead, entry{name: "tree/d/", kind: tar.TypeDir}, entry{name: "tree/d/../../x"}), workspace.ErrCorrupt},
		"absolute":         {archiveOf(t, goodHead, entry{name: outside}), workspace.ErrCorrupt},
		"absolute in tree": {archiveOf(t, goodHead, entry{name: "tree//etc/x"}), workspace.ErrCorrupt},
		"beside the tree":  {archiveOf(t, goodHead, entry{name: "other/x"}), workspace.ErrCorrupt},
		"the tree itself":  {archiveOf(t, goodHead, entry{name: "tree/."}), workspace.ErrCorrupt},
		"state":            {archiveOf(t, goodHead, entry{name: "tree/.wsctl/", kind: tar.TypeDir}), workspace.ErrCorrupt},
		"git":              {archiveOf(t, goodHead, entry{name: "tree/d/", kind: tar.TypeDir}, entry{name: "tree/d/.GIT/", kind: tar.TypeDir}), workspace.ErrCorrupt},
		"twice":            {archiveOf(t, goodHead, entry{name: "tree/a"}, entry{name: "tree/a"}), workspace.ErrCorrupt},
		"link, then dir":   {archiveOf(t, goodHead, entry{name: "tree/a", link: "/tmp", kind: tar.TypeSymlink}, entry{name: "tree/a/", kind: tar.TypeDir}), workspace.ErrCorrupt},
		"through a link":   {archiveOf(t, goodHead, entry{name: "tree/a", link: "/tmp", kind: tar.TypeSymlink}, entry{name: "tree/a/x"}), workspace.ErrCorrupt},
		"no parent":        {archiveOf(t, goodHead, entry{name: "tree/a/x"}), workspace.ErrCorrupt},
		"hard link":        {archiveOf(t, goodHead, entry{name: "tree/a", link: "/etc/passwd", kind: tar.TypeLink}), workspace.ErrCorrupt},
		"device":           {archiveOf(t, goodHead, entry{name: "tree/a", kind: tar.TypeChar}), workspace.ErrCorrupt},
		"FIFO":             {archiveOf(t, goodHead, entry{name: "tree/a", kind: tar.TypeFifo}), workspace.ErrCorrupt},
		"long name":        {archiveOf(t, goodHead, entry{name: "tree/" + strings.Repeat("a", 256)}), workspace.ErrCorrupt},
		"no record":        {archiveOf(t, "{}"), workspace.ErrCorrupt},
		"newer":            {archiveOf(t, `{"wsctlSnapshot":2}`), workspace.ErrCorrupt},
		"a bad exclude":    {archiveOf(t, `{"wsctlSnapshot":1,"exclude":["["]}`), workspace.ErrCorrupt},
		"cut short":        {good[:len(good)-20], workspace.ErrCorrupt},
		"no zstd":          {[]byte("hello"), workspace.ErrCorrupt},
		"empty":            {nil, workspace.ErrCorrupt},
		"too large":        {archiveOf(t, goodHead, bomb), workspace.ErrTooLarge},
		"too many":         {archiveOf(t, goodHead, slices.Repeat([]entry{{name: "tree/d/", kind: tar.TypeDir}}, 1)...), ""},
	} {
		o := snapshot.ImportOptions{MaxBytes: 1 << 20, MaxEntries: 100}
		_, err := a.store.Import(bg, bytes.NewReader(c.archive), o)
		if c.code == "" {
			check(t, err)
			continue
		}
		if workspace.CodeOf(err) != c.code {
			t.Errorf("%s: %v", what, err)
		}
	}
	many := make([]entry, 101)
	for i := range many {
		many[i] = entry{name: "tree/" + strings.Repeat("x", i+1)}
	}
	_, err := a.store.Import(bg, bytes.NewReader(archiveOf(t, goodHead, many...)), snapshot.ImportOptions{MaxEntries: 100})
	wantCode(t, err, workspace.ErrTooLarge)
	for i := range many {
		many[i] = entry{name: fmt.Sprintf("tree/%d", i), kind: tar.TypeSymlink, link: strings.Repeat("x", 4000)}
	}
	_, err = a.store.Import(bg, bytes.NewReader(archiveOf(t, goodHead, many...)), snapshot.ImportOptions{MaxNames: 400_000})
	wantCode(t, err, workspace.ErrTooLarge)
	list, err := a.List(bg)
	check(t, err)
	if len(list) != 1 {
		t.Errorf("kept: %+v", list)
	}
	if v, err := a.store.Verify(bg); err != nil || len(v.Problems) != 0 {
		t.Errorf("verify: %+v, %v", v, err)
	}
	if left, _ := filepath.Glob(filepath.Join(a.at, "packs", ".*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	// Special bits come to nothing.
	snap, err := a.store.Import(bg, bytes.NewReader(good), snapshot.ImportOptions{})
	check(t, err)
	a.restore(snap.ID)
	if fi, err := os.Stat(a.path("f")); err != nil || fi.Mode() != 0o755 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}
