//go:build linux

package search_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/search"
)

// Directories that are swapped for links to outside while they are searched show
// no name, no content and no size of what is there.
func TestRace(t *testing.T) {
	ws, dir := open(t)
	out := filepath.Join(filepath.Dir(dir), "out")
	for i := range 200 {
		grow(t, dir, fmt.Sprintf("d/sub/in%03d = inside\n", i), fmt.Sprintf("d/in%03d = inside\n", i))
		grow(t, out, fmt.Sprintf("out%03d = outside\n", i), fmt.Sprintf("sub/out%03d = outside\n", i), fmt.Sprintf("sub/in%03d = outside\n", i))
	}
	link := filepath.Join(filepath.Dir(dir), "link")
	check(t, os.Symlink(out, link))
	var swaps, searches atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "d"), unix.AT_FDCWD, link, unix.RENAME_EXCHANGE) == nil {
				swaps.Add(1)
			}
		}
	})
	seen := func(what, path string, size int64) {
		if strings.Contains(path, "out") || size == int64(len("outside\n")) {
			t.Errorf("%s shows %q of %d bytes", what, path, size)
		}
	}
	length := 700 * time.Millisecond
	if enginetest.Soak() {
		length = 10 * time.Second
	}
	begun := time.Now()
	for time.Since(begun) < length || (searches.Load() == 0 && time.Since(begun) < 20*time.Second) {
		f := list(t, ws, search.FindOptions{Details: true, Order: search.ByTime})
		for _, e := range f.Entries {
			seen("list", e.Path, e.Size)
		}
		if f, err := search.Glob(bg, ws, "d/**/*", search.FindOptions{Details: true}); err == nil {
			for _, e := range f.Entries {
				seen("glob", e.Path, e.Size)
			}
			if f.Total > 0 {
				searches.Add(1)
			}
		}
		for _, file := range grep(t, ws, "side", search.GrepOptions{}).Files {
			for _, l := range file.Lines {
				seen("grep", file.Path, 0)
				if l.Text != "inside" {
					t.Errorf("grep shows %q", l.Text)
				}
			}
		}
	}
	close(stop)
	wg.Wait()
	if swaps.Load() == 0 || searches.Load() == 0 {
		t.Errorf("nothing raced: %d swaps, %d searches", swaps.Load(), searches.Load())
	}
}
