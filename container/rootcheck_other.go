//go:build unix && !linux

package container

import "os"

// fileSystemKind is what a file system is like as a place for a root.
type fileSystemKind struct {
	name                   string
	kernel, remote, noexec bool
}

// fileSystem knows nothing here: the engine runs in a virtual machine, and how
// its files get there is that machine's matter.
func fileSystem(*os.File) fileSystemKind { return fileSystemKind{name: "a file system"} }

// birthTime is not asked for here.
func birthTime(*os.File) int64 { return 0 }
