//go:build !linux

package orchestrator

import "os"

// flushData brings what was appended to a file to the disk.
func flushData(f *os.File) error { return f.Sync() }
