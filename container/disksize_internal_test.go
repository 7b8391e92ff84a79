//go:build unix

package container

import (
	"context"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A tree is as large as du(1) says, with links, FIFOs and names of every kind in it.
func TestMeasureTreeIsWhatDuSays(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"a/b/c/one": 100_000, "a/two": 1, "a/b/\xff\n": 70_000, "empty": 0} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Link(filepath.Join(dir, "a/b/c/one"), filepath.Join(dir, "again")),
		os.Symlink(outside, filepath.Join(dir, "link")),
		os.Symlink(filepath.Dir(outside), filepath.Join(dir, "a/dirlink")),
		unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
		os.Truncate(filepath.Join(dir, "a/two"), 1<<40),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 2 { // a descriptor that was read once is read again from its beginning
		got, err := measureTree(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		said, err := osexec.Command("du", "-s", "--block-size=512", dir).Output()
		if err != nil {
			t.Skip("no du(1):", err)
		}
		blocks, err := strconv.ParseInt(strings.Fields(string(said))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		var top unix.Stat_t
		if err := unix.Fstat(int(d.Fd()), &top); err != nil {
			t.Fatal(err)
		}
		if want := (blocks - int64(top.Blocks)) * 512; got.Bytes != want || got.Closed != 0 {
			t.Errorf("got %+v, want %d bytes", got, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := measureTree(ctx, d); err == nil {
		t.Error("measured without time")
	}
}

// What is too deep for the descriptors that a measurement may hold is told.
func TestMeasureTreeTellsWhatIsTooDeep(t *testing.T) {
	dir := t.TempDir()
	at, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range maxTreeDepth + 2 {
		if err := at.Mkdir("d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := at.OpenRoot("d")
		_ = at.Close()
		if err != nil {
			t.Fatal(err)
		}
		at = next
	}
	_ = at.Close()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got, err := measureTree(t.Context(), d); err != nil || got.Closed != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func BenchmarkMeasureTree(b *testing.B) {
	d, err := os.Open("/usr/share")
	if err != nil {
		b.Skip(err)
	}
	defer d.Close()
	files := 0
	for b.Loop() {
		s, err := measureTree(b.Context(), d)
		if err != nil {
			b.Fatal(err)
		}
		files = s.Files
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(max(files, 1)), "ns/file")
}
