//go:build linux

package host_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Nothing in the package changes a mode, an owner or a time by a
// path, removes or opens by one below the root, or maps a file that somebody
// may truncate.
func TestRootSource(t *testing.T) {
	forbidden := []string{
		"Chmod", "Chown", "Lchown", "Chtimes", "Utimes", "UtimesNano", "UtimesNanoAt", "Futimesat", "Lutimes",
		"Remove", "RemoveAll", "Rename", "Symlink", "Link", "Mkdir", "MkdirAll", "WriteFile", "ReadFile", "Create", "Truncate", "Mmap",
	}
	files, err := filepath.Glob("*_linux.go")
	check(t, err)
	calls := 0
	for _, name := range files {
		if strings.HasPrefix(name, "process") {
			continue // commands, not files of the root
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, 0)
		check(t, err)
		byDescriptor := map[ast.Node]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 0 {
				// What has a name in /proc/self/fd is a descriptor.
				dir, ok := call.Args[0].(*ast.SelectorExpr)
				byDescriptor[call.Fun] = ok && dir.Sel.Name == "proc"
			}
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if ok && slices.Contains([]string{"os", "unix", "syscall"}, pkg.Name) {
				calls++
				if slices.Contains(forbidden, sel.Sel.Name) && !byDescriptor[sel] {
					t.Errorf("%s: %s.%s goes by a path", set.Position(n.Pos()), pkg.Name, sel.Sel.Name)
				}
			}
			return true
		})
	}
	if calls < 100 {
		t.Errorf("only %d uses of the system were looked at", calls)
	}
}

// No name of a temporary file can be foreseen, and what has such a name
// already is left alone.
func TestRootTempNames(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		seen[tempNameOf(t)] = true
	}
	if len(seen) != 1000 {
		t.Errorf("%d different names of 1000", len(seen))
	}
}
