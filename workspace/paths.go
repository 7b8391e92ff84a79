package workspace

import (
	"strings"
)

// Bounds of a path, from Linux (path_resolution(7)): PATH_MAX without its NUL,
// and NAME_MAX.
const (
	maxPath = 4095
	maxName = 255
)

// name turns a path as a caller spells it into a name as Files takes it:
// relative to the root. A path may be relative, or absolute below one of the
// root's spellings. Nothing else is done to it: "..", "." and repeated slashes
// stay, because what they mean is known only where links are.
func (w *Workspace) name(op, path string) (string, error) {
	switch {
	case path == "":
		return "", Errorf(ErrInvalidPath, op, path, `the path is empty; "." is the root`)
	case strings.IndexByte(path, 0) >= 0:
		return "", Errorf(ErrInvalidPath, op, path, "the path holds a NUL byte")
	case len(path) > maxPath:
		return "", Errorf(ErrInvalidPath, op, path, "the path has %d bytes; the limit is %d", len(path), maxPath)
	}
	for part := range strings.SplitSeq(path, "/") {
		if len(part) > maxName {
			return "", Errorf(ErrInvalidPath, op, path, "a name in the path has %d bytes; the limit is %d", len(part), maxName)
		}
	}
	if path[0] != '/' {
		return path, nil
	}
	absolute := "/" + strings.TrimLeft(path, "/")
	for _, root := range w.roots {
		rest, below := strings.CutPrefix(absolute, root)
		if !below || (rest != "" && rest[0] != '/') {
			continue
		}
		// A final slash is kept: it demands a directory.
		rest = strings.TrimLeft(rest, "/")
		if rest == "" {
			return ".", nil
		}
		return rest, nil
	}
	return "", Errorf(ErrOutside, op, path, "the path lies outside the workspace; use a path below %s", w.Root())
}

// names is name of each path.
func (w *Workspace) names(op string, paths []string) ([]string, error) {
	names := make([]string, len(paths))
	for i, p := range paths {
		var err error
		if names[i], err = w.name(op, p); err != nil {
			return nil, err
		}
	}
	return names, nil
}
