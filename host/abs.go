package host

import (
	"path/filepath"

	"github.com/wsctl/wsctl/workspace"
)

// Abs is the absolute spelling of a path of this machine. It is NOT_FOUND when
// that depends on the current directory and the current directory is gone.
func Abs(op, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", workspace.Errorf(workspace.ErrNotFound, op, path, "the current directory was removed; change to one that is there, or give an absolute path")
	}
	return abs, nil
}
