//go:build unix

package container

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// maxSourceLinks is how many links a source may lead through, as in Linux
// (path_resolution(7)).
const maxSourceLinks = 40

// errPlanted is the refusal of followed.
var errPlanted = errors.New("a link in a workspace leads out of it there; commands can change such a link, so it is not followed: name the place itself")

// followed resolves an absolute path to one without links. A link that lies in a
// workspace, that of root or any other, was perhaps put there by a command: it may
// lead to a place of the same workspace only, else the error is errPlanted. What is
// at the path may be another thing by the time that the engine looks it up, so
// whoever mounts it looks at what was mounted.
func followed(path, root string) (string, error) {
	at := "/"
	rest := parts(path)
	var bounds []string // workspaces that links were found in
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		if part == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		info, err := os.Lstat(next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if len(rest) > 0 && !info.IsDir() {
				return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("not a directory")}
			}
			at = next
			continue
		}
		if links++; links > maxSourceLinks {
			return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("too many links")}
		}
		text, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if w := workspaceOf(at, root); w != "" {
			bounds = append(bounds, w)
		}
		if filepath.IsAbs(text) {
			at = "/"
		}
		rest = append(parts(text), rest...)
	}
	for _, w := range bounds {
		if !below(at, w) {
			return "", errPlanted
		}
	}
	return at, nil
}

// parts are the names in a path; ".." stays, for after a link it means what the
// link leads to.
func parts(path string) []string {
	var list []string
	for part := range strings.SplitSeq(path, "/") {
		if part != "" && part != "." {
			list = append(list, part)
		}
	}
	return list
}

// workspaceOf is the workspace that a directory, a path without links, is or lies
// in, the innermost one; "" for none. One is known by its state.
func workspaceOf(dir, root string) string {
	for {
		info, err := os.Lstat(filepath.Join(dir, host.StateName))
		if dir == root || err == nil && info.IsDir() {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// refuseUnseen refuses a source that commands may swap, where what was mounted
// cannot be looked at afterwards.
func refuseUnseen(source, root string) error {
	if !below(source, root) {
		return nil
	}
	return mountError(workspace.ErrDenied, source, "it lies in the root, where commands can put something else, and without a keeper, or with another runtime, what was mounted cannot be checked; mount a directory outside")
}
