//go:build unix

package host

// CopyTreeOptions say how a tree is copied.
type CopyTreeOptions struct {
	// Overwrite replaces what has the new name: a directory by a directory,
	// anything else by anything else. What was there is whole until the copy
	// is.
	Overwrite bool
	// MaxBytes bounds what all files hold together; 0: no bound.
	MaxBytes int64
}
