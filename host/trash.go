//go:build unix

package host

import (
	"io/fs"
	"time"
)

// TrashName is the directory in the state that holds what Remove with Trash
// took: a directory an item, with the entry itself and what is known of it.
const TrashName = "trash"

// TrashItem is one removed entry.
type TrashItem struct {
	// ID names the item. IDs sort by time.
	ID string
	// Path is where it was, relative to the root, as it was asked for.
	Path string
	// Removed is when it was removed.
	Removed time.Time
	// Size is the size of all regular files in it, in bytes.
	Size int64
	// Mode tells what it is.
	Mode fs.FileMode
}

// PurgeOptions say what PurgeTrash deletes: all that either bound excludes.
type PurgeOptions struct {
	// OlderThan deletes what was removed longer ago; 0: no bound.
	OlderThan time.Duration
	// MaxBytes deletes the oldest until the rest is at most so large; 0: no
	// bound.
	MaxBytes int64
	// All deletes everything, damaged items included.
	All bool
}
