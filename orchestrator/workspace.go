package orchestrator

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// State is where a workspace is in its life.
type State string

// States of a workspace. Those of which callers are told are Ready, Paused and
// Stopped.
const (
	// Creating: being made. After a crash it is removed.
	Creating State = "creating"
	// Pooled: ready, over an empty root, and nobody's yet.
	Pooled State = "pooled"
	// Ready: commands can run, or are able to after a start.
	Ready State = "ready"
	// Paused: its processes stand still.
	Paused State = "paused"
	// Stopped: it has no container; the next command makes one.
	Stopped State = "stopped"
	// Removing: being removed. After a crash that is finished.
	Removing State = "removing"
)

// Kinds of back ends.
const (
	DriverContainer = "container"
	DriverHost      = "host"
)

// Spec says what workspace is wanted. The zero value is an empty root with the
// host's own toolchain.
type Spec struct {
	// Name is what people call it, unique; empty: its id.
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Driver is container or host; empty: container. Commands of host are
	// confined by nothing, and a server has to allow them.
	Driver string `json:"driver,omitempty"`
	// Image is for containers; empty: the host's own toolchain.
	Image   string `json:"image,omitempty"`
	Network string `json:"network,omitempty"`
	Limits  Limits `json:"limits"`
	// IdleTTL stops it when nothing was done in it for so long, TTL removes it
	// so long after it was made; 0: never. Looking at it is not doing.
	IdleTTL time.Duration `json:"idleTtlNs,omitempty"`
	TTL     time.Duration `json:"ttlNs,omitempty"`
	Source  Source        `json:"source"`
	// Lazy leaves the start of the container to the first command.
	Lazy bool `json:"lazy,omitempty"`
}

// Limits bound what one workspace takes. 0: the server's default.
type Limits struct {
	Memory int64   `json:"memory,omitempty"` // bytes
	CPUs   float64 `json:"cpus,omitempty"`
	Pids   int64   `json:"pids,omitempty"`
}

// Source says what a root holds at first. At most one may be set; none: nothing.
type Source struct {
	// Directory of this machine is the root itself. It is never removed.
	Directory string `json:"directory,omitempty"`
	// Template is the name of a directory that is copied.
	Template string `json:"template,omitempty"`
	// Workspace and Snapshot name a snapshot to begin with; Snapshot may be
	// "latest".
	Workspace string `json:"workspace,omitempty"`
	Snapshot  string `json:"snapshot,omitempty"`
	// Tar is the id of an upload: a tar, as it is or in gzip or zstd.
	Tar string `json:"tar,omitempty"`
	// Bundle is the id of an upload: a git bundle, which is cloned inside the
	// workspace by its own git.
	Bundle string `json:"bundle,omitempty"`
}

// Workspace is what is known of one.
type Workspace struct {
	ID string `json:"id"`
	Spec
	State State `json:"state"`
	// Root is the directory on the server's machine.
	Root string `json:"root"`
	// Owner is the name of the token that it was made with.
	Owner   string    `json:"owner,omitempty"`
	Created time.Time `json:"created"`
	// Used is when something was last done in it, to about ten seconds.
	Used time.Time `json:"used"`

	// door is where keepers of its jobs get their files; only a back end is
	// told of it.
	door string
}

// managed reports whether the root is the orchestrator's own, to be removed with
// the workspace.
func (w Workspace) managed() bool { return w.Source.Directory == "" }

func (w Workspace) clone() Workspace {
	w.Labels = maps.Clone(w.Labels)
	return w
}

// expires returns when the workspace is to be stopped and removed; zero: never.
func (w Workspace) expires() (stop, remove time.Time) {
	if w.IdleTTL > 0 && w.State == Ready {
		stop = w.Used.Add(w.IdleTTL)
	}
	if w.TTL > 0 {
		remove = w.Created.Add(w.TTL)
	}
	return stop, remove
}

const (
	maxLabels    = 64
	maxLabelSize = 1024 // bytes, of a key or a value
	maxName      = 63   // bytes
)

// check refuses what makes no sense, before anything is made.
func (s Spec) check(op string) error {
	bad := func(format string, args ...any) error {
		return workspace.Errorf(workspace.ErrInvalidArgument, op, s.Name, format, args...)
	}
	switch {
	case s.Name != "" && !validName(s.Name):
		return bad("a name has at most %d lower-case letters, digits and, not first, any of \"-_.\"", maxName)
	case s.Driver != DriverContainer && s.Driver != DriverHost:
		return bad("the driver is %.40q; give %s or %s", s.Driver, DriverContainer, DriverHost)
	case s.Limits.Memory < 0 || s.Limits.CPUs < 0 || s.Limits.Pids < 0:
		return bad("a limit is negative; give a positive one, or 0 for the default")
	case s.IdleTTL < 0 || s.TTL < 0:
		return bad("a time to live is negative; give a positive one, or 0 for none")
	case len(s.Labels) > maxLabels:
		return bad("there are %d labels; the most is %d", len(s.Labels), maxLabels)
	case s.Driver == DriverHost && (s.Image != "" || s.Network != "" || s.Limits != Limits{}):
		return bad("images, networks and limits are those of containers; the host driver has none")
	}
	for k, v := range s.Labels {
		if k == "" || len(k) > maxLabelSize || len(v) > maxLabelSize {
			return bad("the label %.40q is empty or over %d bytes", k, maxLabelSize)
		}
	}
	return s.Source.check(bad)
}

func (s Source) check(bad func(string, ...any) error) error {
	n := 0
	for _, set := range []bool{s.Directory != "", s.Template != "", s.Workspace != "" || s.Snapshot != "", s.Tar != "", s.Bundle != ""} {
		if set {
			n++
		}
	}
	switch {
	case n > 1:
		return bad("a workspace has one source: a directory, a template, a snapshot, a tar or a git bundle")
	case (s.Workspace == "") != (s.Snapshot == ""):
		return bad("a snapshot is named by its workspace and its id; give both")
	}
	return nil
}

func validName(name string) bool {
	if len(name) > maxName || strings.TrimLeft(name[:1], "-_.") == "" {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

// idLength is the length of an id, in characters.
const idLength = 16

// minPrefix is how much of an id names a workspace, in characters.
const minPrefix = 4

// Find returns the one of list that ref names: its name, its id, or the beginning
// of its id that no other has. NOT_FOUND, or INVALID_ARGUMENT when several have.
func Find(list []Workspace, ref string) (Workspace, error) {
	found, n := named(list, ref, func(w Workspace) (string, bool) { return w.ID, w.Name == ref })
	switch n {
	case 0:
		return found, noWorkspace(ref)
	case 1:
		return found, nil
	}
	return Workspace{}, workspace.Errorf(workspace.ErrInvalidArgument, "find", ref, "%d workspaces have ids that begin so; give more of it, or the name", n)
}

// named returns the one of list that ref names and how many it may mean. known tells
// of one its id, and whether ref is another name of it.
func named[T any](list []T, ref string, known func(T) (id string, is bool)) (found T, n int) {
	for _, v := range list {
		id, is := known(v)
		if is || id == ref {
			return v, 1
		}
		if len(ref) >= minPrefix && strings.HasPrefix(id, ref) {
			found, n = v, n+1
		}
	}
	return found, n
}

func noWorkspace(ref string) error {
	return workspace.Errorf(workspace.ErrNotFound, "find", ref, "there is no such workspace here; wsctl ls lists them")
}

// String names a workspace for people.
func (w Workspace) String() string {
	if w.Name == w.ID {
		return w.ID
	}
	return fmt.Sprintf("%s (%s)", w.Name, w.ID)
}
