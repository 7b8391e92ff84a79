//go:build linux

package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// node is an entry of the model: a directory, a file or a link.
type node struct {
	entries map[string]*node // a directory
	content string           // a file
	target  string           // a link
}

func (n *node) isDir() bool  { return n != nil && n.entries != nil }
func (n *node) isLink() bool { return n != nil && n.target != "" }
func (n *node) isFile() bool { return n != nil && !n.isDir() && !n.isLink() }

func newDir() *node { return &node{entries: map[string]*node{}} }

// spot is where a name leads in the model.
type spot struct {
	stack []*node // directories from the root to the entry's
	base  string  // empty: the last of the stack itself
	at    *node   // nil: nothing
	slash bool
}

func (s spot) dir() *node { return s.stack[len(s.stack)-1] }

// model is what the root should be, written for clarity and with no system
// call: names are followed as path_resolution(7) says, inside the root.
type model struct{ root *node }

// find follows a name; parents makes missing directories.
func (m *model) find(name string, follow, parents bool) (spot, workspace.Code) {
	if strings.HasPrefix(name, "/") {
		return spot{}, workspace.ErrOutside
	}
	s := spot{stack: []*node{m.root}, slash: demandsDir(name)}
	pending, own, links := parts(name), len(parts(name)), 0
	for len(pending) > 0 {
		part := pending[0]
		pending = pending[1:]
		fromLink := len(pending) >= own
		own = min(own, len(pending))
		if part == ".." {
			if len(s.stack) == 1 {
				return spot{}, workspace.ErrOutside
			}
			s.stack = s.stack[:len(s.stack)-1]
			continue
		}
		last := len(pending) == 0
		at := s.dir().entries[part]
		switch {
		case at == nil && last:
			if fromLink {
				return spot{}, workspace.ErrNotFound
			}
			s.base = part
			return s, ""
		case at == nil || at.isFile() && (!last || s.slash):
			if leaves(len(s.stack), pending) {
				return spot{}, workspace.ErrOutside
			}
			if at != nil {
				return spot{}, workspace.ErrNotDirectory
			}
			if fromLink || !parents || slices.Contains(pending, "..") {
				return spot{}, workspace.ErrNotFound
			}
			at = newDir()
			s.dir().entries[part] = at
			s.stack = append(s.stack, at)
		case at.isLink() && (!last || follow || s.slash):
			if links++; links > 40 {
				return spot{}, workspace.ErrInvalidPath
			}
			s.slash = s.slash || last && demandsDir(at.target)
			pending = append(parts(at.target), pending...)
		case last:
			s.base, s.at = part, at
			return s, ""
		default:
			s.stack = append(s.stack, at)
		}
	}
	s.at = s.dir()
	return s, ""
}

// demandsDir reports whether the end of a name says that it is a directory.
func demandsDir(name string) bool {
	return name == "." || strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/.")
}

func parts(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(p string) bool { return p == "" || p == "." })
}

// leaves reports whether what is left of a name climbs over the root.
func leaves(depth int, pending []string) bool {
	for _, p := range pending {
		if p == ".." {
			depth--
		} else {
			depth++
		}
		if depth < 0 {
			return true
		}
	}
	return false
}

func (m *model) write(name, content string, o workspace.WriteOptions) workspace.Code {
	s, code := m.find(name, !o.Exclusive, true)
	switch {
	case code != "":
		return code
	case o.Exclusive && s.at != nil:
		return workspace.ErrExists
	case s.at.isDir():
		return workspace.ErrNotFile
	case s.slash:
		return workspace.ErrInvalidPath
	case s.at != nil && o.Append:
		content = s.at.content + content
	}
	s.dir().entries[s.base] = &node{content: content}
	return ""
}

func (m *model) read(name string) (string, workspace.Code) {
	s, code := m.find(name, true, false)
	switch {
	case code != "":
		return "", code
	case s.at == nil:
		return "", workspace.ErrNotFound
	case !s.at.isFile():
		return "", workspace.ErrNotFile
	}
	return s.at.content, ""
}

func (m *model) list(name string) (string, workspace.Code) {
	s, code := m.find(name, true, false)
	switch {
	case code != "":
		return "", code
	case s.at == nil:
		return "", workspace.ErrNotFound
	case !s.at.isDir():
		return "", workspace.ErrNotDirectory
	}
	var names []string
	for n := range s.at.entries {
		names = append(names, n)
	}
	slices.Sort(names)
	return fmt.Sprint(names), ""
}

func (m *model) mkdir(name string, parents bool) workspace.Code {
	s, code := m.find(name, parents, parents)
	switch {
	case code != "":
		return code
	case s.at.isDir() && parents:
		return ""
	case s.at != nil:
		return workspace.ErrExists
	}
	s.dir().entries[s.base] = newDir()
	return ""
}

func (m *model) symlink(target, name string) workspace.Code {
	s, code := m.find(name, false, false)
	if code != "" {
		return code
	}
	if s.base == "" {
		return workspace.ErrExists
	}
	if code := m.from(s.stack, target); code == workspace.ErrOutside || code == workspace.ErrInvalidPath {
		return code
	}
	if s.at != nil {
		return workspace.ErrExists
	}
	s.dir().entries[s.base] = &node{target: target}
	return ""
}

// from follows target from a directory.
func (m *model) from(stack []*node, target string) workspace.Code {
	// A link in the directory, put there for a moment, is followed like
	// any other.
	dir := stack[len(stack)-1]
	const probe = "probe"
	dir.entries[probe] = &node{target: target}
	defer delete(dir.entries, probe)
	name := probe
	for i := len(stack) - 1; i > 0; i-- {
		for n, child := range stack[i-1].entries {
			if child == stack[i] {
				name = n + "/" + name
			}
		}
	}
	_, code := m.find(name, true, false)
	return code
}

func (m *model) remove(name string, recursive bool) workspace.Code {
	s, code := m.find(name, false, false)
	switch {
	case code != "":
		return code
	case s.base == "":
		return workspace.ErrInvalidPath
	case s.at == nil:
		return workspace.ErrNotFound
	case s.at.isDir() && len(s.at.entries) > 0 && !recursive:
		return workspace.ErrNotEmpty
	}
	delete(s.dir().entries, s.base)
	return ""
}

func (m *model) rename(from, to string, overwrite bool) workspace.Code {
	src, code := m.find(from, false, false)
	if code != "" {
		return code
	}
	dst, code := m.find(to, false, false)
	switch {
	case code != "":
		return code
	case src.base == "":
		return workspace.ErrInvalidPath
	case src.at == nil:
		return workspace.ErrNotFound
	case dst.base == "":
		return workspace.ErrExists
	case dst.at == src.at:
		return ""
	case dst.at != nil && !overwrite:
		return workspace.ErrExists
	case dst.at != nil && src.at.isDir() && !dst.at.isDir():
		return workspace.ErrNotDirectory
	case dst.at != nil && !src.at.isDir() && dst.at.isDir():
		return workspace.ErrNotFile
	case slices.Contains(dst.stack, src.at), dst.at != nil && slices.Contains(src.stack, dst.at):
		return workspace.ErrInvalidArgument
	}
	delete(src.dir().entries, src.base)
	dst.dir().entries[dst.base] = src.at
	return ""
}

// tree is the whole model as text, to be compared with what is on the disk.
func (n *node) tree(path string, out *[]string) {
	switch {
	case n.isDir():
		*out = append(*out, path+"/")
		for name, child := range n.entries {
			child.tree(path+"/"+name, out)
		}
	case n.isLink():
		*out = append(*out, path+" -> "+n.target)
	default:
		*out = append(*out, path+" = "+n.content)
	}
}

func diskTree(t testing.TB, dir string) []string {
	var out []string
	check(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(path, dir)
		switch {
		case d.IsDir() && d.Name() == host.StateName:
			return filepath.SkipDir
		case d.IsDir():
			out = append(out, rel+"/")
		case d.Type() == os.ModeSymlink:
			text, err := os.Readlink(path)
			check(t, err)
			out = append(out, rel+" -> "+text)
		default:
			b, err := os.ReadFile(path)
			check(t, err)
			out = append(out, rel+" = "+string(b))
		}
		return nil
	}))
	slices.Sort(out)
	return out
}

// modelSteps is how many operations one random run has; rapid makes 100 runs
// unless -rapid.checks says more.
const modelSteps = 100
