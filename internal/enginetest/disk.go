package enginetest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Disk mounts a file system of its own of that many bytes, in a file, and
// returns where; mkfs and its options make it. It is root's to do, and needs
// mkfs: a test that has not got them ends.
func Disk(t testing.TB, size int64, mkfs ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a file system is mounted by root")
	}
	dir := Dir(t)
	image, mnt := filepath.Join(dir, "image"), filepath.Join(dir, "mnt")
	f, err := os.Create(image)
	if err == nil {
		err = errors.Join(f.Truncate(size), f.Close(), os.Mkdir(mnt, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{append(mkfs, image), {"mount", "-o", "loop", image, mnt}} {
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			Missing(t, argv[0]+": "+err.Error()+": "+string(out))
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", mnt).CombinedOutput(); err != nil { //nolint:noctx // the test's context has ended
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return mnt
}
