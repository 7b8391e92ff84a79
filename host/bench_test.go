//go:build linux

package host_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// Each benchmark runs our call and the same by other means in turn, so that
// both meet the same machine, and reports how long ours takes as a multiple
// of each of the others.

// peer is another way to do what is measured.
type peer struct {
	name string
	call func(i int)
}

// compare alternates between blocks of ours and of each peer's calls, and
// compares the medians: other work of the machine meets single blocks.
func compare(b *testing.B, block int, ours func(i int), peers ...peer) {
	b.Helper()
	b.ReportAllocs()
	spent := make([][]time.Duration, len(peers)+1)
	n := 0
	run := func(k int, call func(int)) {
		start := time.Now()
		for i := range block {
			call(n + i)
		}
		spent[k] = append(spent[k], time.Since(start))
	}
	for b.Loop() {
		run(0, ours)
		b.StopTimer()
		for k, p := range peers {
			run(k+1, p.call)
		}
		n += block
		b.StartTimer()
	}
	b.ReportMetric(float64(median(spent[0]))/float64(block), "ns/call")
	for k, p := range peers {
		b.ReportMetric(float64(median(spent[0]))/float64(median(spent[k+1])), "x"+p.name)
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func benchRoot(b *testing.B) (string, *host.Root, *os.Root) {
	b.Helper()
	dir := b.TempDir()
	r, err := host.OpenRoot(dir, host.RootOptions{})
	if err != nil {
		b.Fatal(err)
	}
	std, err := os.OpenRoot(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.Close(); std.Close() })
	return dir, r, std
}

func check(b testing.TB, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

func BenchmarkStat(b *testing.B) {
	for _, name := range []string{"file", "a/b/c/file"} {
		b.Run(fmt.Sprintf("depth=%d", strings.Count(name, "/")+1), func(b *testing.B) {
			dir, r, std := benchRoot(b)
			path := filepath.Join(dir, name)
			check(b, os.MkdirAll(filepath.Dir(path), 0o755))
			check(b, os.WriteFile(path, nil, 0o644))
			ctx := context.Background()
			compare(b, 100, func(int) { _, err := r.Stat(ctx, name); check(b, err) },
				peer{"os", func(int) { _, err := os.Stat(path); check(b, err) }},
				peer{"osRoot", func(int) { _, err := std.Stat(name); check(b, err) }})
		})
	}
}

func BenchmarkRead4K(b *testing.B) {
	dir, r, std := benchRoot(b)
	check(b, os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755))
	const name = "a/b/c/file"
	path := filepath.Join(dir, name)
	check(b, os.WriteFile(path, make([]byte, 4096), 0o644))
	ctx := context.Background()
	compare(b, 100, func(int) { check(b, read(ctx, r, name)) },
		peer{"os", func(int) { _, err := os.ReadFile(path); check(b, err) }},
		peer{"osRoot", func(int) { _, err := std.ReadFile(name); check(b, err) }})
}

// read is Workspace.ReadFile over a Files.
func read(ctx context.Context, r *host.Root, name string) error {
	f, err := r.Open(ctx, name)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	buf := bytes.NewBuffer(make([]byte, 0, fi.Size()+bytes.MinRead))
	_, err = buf.ReadFrom(io.LimitReader(f, 32<<20))
	return err
}

func BenchmarkWrite4K(b *testing.B) {
	dir, r, _ := benchRoot(b)
	content := make([]byte, 4096)
	ctx := context.Background()
	compare(b, 20, func(int) {
		_, err := r.Write(ctx, "ours", bytes.NewReader(content), workspace.WriteOptions{})
		check(b, err)
	}, peer{"byHand", func(i int) { check(b, writeByHand(dir, "theirs", i, content)) }})
}

// writeByHand is the durable replacement of a file: create, write, fsync,
// rename, fsync of the directory.
func writeByHand(dir, name string, i int, content []byte) error {
	temp := filepath.Join(dir, fmt.Sprintf(".%s-%d", name, i))
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, name)); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func BenchmarkList10000(b *testing.B) {
	dir, r, std := benchRoot(b)
	fill(b, dir, "d", 10_000)
	path := filepath.Join(dir, "d")
	ctx := context.Background()
	compare(b, 1, func(int) {
		list, err := r.ReadDir(ctx, "d", workspace.ListOptions{})
		check(b, err)
		if len(list.Entries) != 10_000 {
			b.Fatal(len(list.Entries))
		}
	}, peer{"os", func(int) {
		entries, err := os.ReadDir(path)
		check(b, err)
		for _, e := range entries {
			_, err := os.Lstat(filepath.Join(path, e.Name()))
			check(b, err)
		}
	}}, peer{"osRoot", func(int) {
		f, err := std.Open("d")
		check(b, err)
		entries, err := f.ReadDir(-1)
		check(b, err)
		for _, e := range entries {
			_, err := std.Lstat("d/" + e.Name())
			check(b, err)
		}
		f.Close()
	}})
}

func BenchmarkRemove20000(b *testing.B) {
	dir, r, std := benchRoot(b)
	ctx := context.Background()
	grow := func(name string) {
		for i := range 100 {
			fill(b, dir, fmt.Sprintf("%s/%d", name, i), 200)
		}
	}
	var ours, theirs, root time.Duration
	for b.Loop() {
		b.StopTimer()
		grow("ours")
		grow("theirs")
		grow("root")
		unix.Sync()
		start := time.Now()
		check(b, os.RemoveAll(filepath.Join(dir, "theirs")))
		theirs += time.Since(start)
		start = time.Now()
		check(b, std.RemoveAll("root"))
		root += time.Since(start)
		b.StartTimer()
		start = time.Now()
		check(b, r.Remove(ctx, "ours", workspace.RemoveOptions{Recursive: true}))
		ours += time.Since(start)
	}
	b.ReportMetric(float64(ours)/float64(theirs), "xos")
	b.ReportMetric(float64(ours)/float64(root), "xosRoot")
}

// fill makes a directory with n empty files.
func fill(b testing.TB, dir, name string, n int) {
	path := filepath.Join(dir, name)
	check(b, os.MkdirAll(path, 0o755))
	for i := range n {
		fd, err := unix.Open(filepath.Join(path, fmt.Sprintf("file-%06d", i)), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		check(b, err)
		check(b, unix.Close(fd))
	}
}
