//go:build linux

package snapshot_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// manyFiles is the size of a large tree, and enoughMemory what saving, planning
// and restoring it may take at most, in kilobytes.
const (
	manyFiles    = 200_000
	enoughMemory = 200_000
)

// TestMemoryChild is the process whose memory TestMemory measures; by itself it
// has nothing to do.
func TestMemoryChild(t *testing.T) {
	dir, at := os.Getenv("WSCTL_MEMORY_DIR"), os.Getenv("WSCTL_MEMORY_STORE")
	if dir == "" {
		return
	}
	a := &area{t: t, dir: dir, at: at}
	a.open(snapshot.Options{})
	defer a.close()
	first := a.save()
	if second := a.save(); second.Stats.Read != 0 {
		t.Errorf("%d files were read again", second.Stats.Read)
	}
	a.remove("d0")
	_, err := a.Restore(bg, first.ID, workspace.RestoreOptions{})
	check(t, err)
	b, err := os.ReadFile("/proc/self/status")
	check(t, err)
	_, peak, _ := strings.Cut(string(b), "VmHWM:")
	peak, _, _ = strings.Cut(peak, "kB")
	fmt.Printf("peak=%s files=%d\n", strings.TrimSpace(peak), first.Stats.Files)
}

// A large tree is saved and restored in a bounded amount of memory.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: memory was left out; it is the same for every user")
	}
	base := t.TempDir()
	a := &area{t: t, dir: filepath.Join(base, "root"), at: filepath.Join(base, "store")}
	files := manyFiles
	if enginetest.Rounds(manyFiles) < manyFiles {
		files /= 50 // to see that the test works
	}
	for i := range files {
		d := a.path(fmt.Sprintf("d%d/e%d", i%20, i/20%50))
		if i < 1000 {
			check(t, os.MkdirAll(d, 0o755))
		}
		check(t, os.WriteFile(fmt.Sprintf("%s/file-%d.txt", d, i), strconv.AppendInt(nil, int64(i), 10), 0o644))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestMemoryChild$", "-test.count=1") //nolint:noctx // it ends by itself
	cmd.Env = append(os.Environ(), "WSCTL_MEMORY_DIR="+a.dir, "WSCTL_MEMORY_STORE="+a.at)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var peak, saved int
	if _, err := fmt.Sscanf(string(out), "peak=%d files=%d", &peak, &saved); err != nil || saved != files {
		t.Fatalf("it says %q", out)
	}
	t.Logf("%d files: %d kB at most", files, peak)
	if peak > enoughMemory {
		t.Errorf("%d files took %d kB", files, peak)
	}
}
