package enginetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// makeCache makes the directory in which the test processes of this user share
// programs, packages and locks, and returns its path.
func makeCache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache directory of the tests: %w", err)
	}
	dir = filepath.Join(dir, "wsctl-test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cache directory of the tests: %w", err)
	}
	return dir, nil
}

// cacheDir is makeCache for a test.
func cacheDir(t testing.TB) string {
	t.Helper()
	dir, err := makeCache()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
