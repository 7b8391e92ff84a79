package orchestrator

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushData brings what was appended to a file to the disk, without the times of
// the file.
func flushData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
