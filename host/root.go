//go:build unix

package host

import (
	"log/slog"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// HardLinks says which files with more than one name may be read. One of the
// names may lie outside the root, and no system call can tell. Writing never
// depends on it: a write replaces the name and leaves the other ones alone.
type HardLinks string

const (
	// HardLinksAllow reads them all; the zero value means the same.
	HardLinksAllow HardLinks = "allow"
	// HardLinksInternal reads a file only when all its names are found
	// below the root. Each such read walks the tree.
	HardLinksInternal HardLinks = "internal"
	// HardLinksRefuse reads none.
	HardLinksRefuse HardLinks = "refuse"
)

// DefaultLeftoverAge is how old what a crash left must be before the next
// opening takes it for that.
const DefaultLeftoverAge = time.Hour

// StateName is the directory at the top of a root that holds the workspace's
// own state. It, and every name that some file system takes for it (other
// case, trailing dots or spaces, ignorable code points), is closed to the file
// operations: INVALID_PATH. Only what lies below tool-results in it may be
// read. It is not listed.
const StateName = ".wsctl"

// ToolResults is the directory in the state that may be read.
const ToolResults = "tool-results"

// RootOptions say how a root is guarded. The zero value is good for a directory
// whose commands run on this machine.
type RootOptions struct {
	// Guest is the root as the workspace's processes see it, when that is
	// not where it is on this machine ("/workspace"). Absolute links below
	// it are followed. Empty: the path given to OpenRoot and its real path.
	Guest string
	// HardLinks is the policy for files with more than one name.
	HardLinks HardLinks
	// LeftoverAge is how old what a crash left must be; 0:
	// DefaultLeftoverAge; negative: it is left alone.
	LeftoverAge time.Duration
	// NoMounts makes every operation in another file system that is mounted
	// inside the root UNSUPPORTED, because the workspace's processes do not
	// see that file system.
	NoMounts bool
	// Logger is told what no call returns; nil: silent.
	Logger *slog.Logger
}

// check refuses options that make no sense and fills in the defaults.
func (o *RootOptions) check(op, dir string) error {
	switch o.HardLinks {
	case "":
		o.HardLinks = HardLinksAllow
	case HardLinksAllow, HardLinksInternal, HardLinksRefuse:
	default:
		return workspace.Errorf(workspace.ErrInvalidArgument, op, dir,
			"hard links %q: choose allow, internal or refuse", string(o.HardLinks))
	}
	if o.Guest != "" && (o.Guest[0] != '/' || len(split(o.Guest).parts) == 0) {
		return workspace.Errorf(workspace.ErrInvalidArgument, op, dir,
			"guest root %q: give an absolute path below /", o.Guest)
	}
	if o.LeftoverAge == 0 {
		o.LeftoverAge = DefaultLeftoverAge
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}
