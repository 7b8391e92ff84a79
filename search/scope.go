package search

import (
	"path"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

// DefaultMaxEntries bounds how many entries one search looks at.
const DefaultMaxEntries = 2_000_000

// Scope says where a search looks. The zero value is the whole workspace.
type Scope struct {
	// Path is where it begins; empty: the root. It is spelled like any path
	// of the workspace.
	Path string
	// Hidden takes in entries whose name begins with a dot.
	Hidden bool
	// NoIgnore takes in what git ignores.
	NoIgnore bool
	// Depth is how many levels below Path are looked at; 1: the entries of
	// Path alone; 0: all.
	Depth int
	// MaxEntries bounds the entries looked at; 0: DefaultMaxEntries. A search
	// that meets more is Incomplete.
	MaxEntries int
}

func (s *Scope) check(op string) error {
	if s.Depth < 0 || s.MaxEntries < 0 {
		return workspace.Errorf(workspace.ErrInvalidArgument, op, s.Path, "depth is %d and the largest number of entries %d; give positive ones, or 0 for the default", s.Depth, s.MaxEntries)
	}
	if s.Path == "" {
		s.Path = "."
	}
	if s.MaxEntries == 0 {
		s.MaxEntries = DefaultMaxEntries
	}
	return nil
}

// Skipped counts what a search did not look at, with the reason. A directory
// counts once, whatever it holds. What a pattern would not have matched, or what
// lies deeper than asked for, does not count.
type Skipped struct {
	// Hidden and Ignored are left out by the rules of the package.
	Hidden  int `json:"hidden,omitempty"`
	Ignored int `json:"ignored,omitempty"`
	// Links are symbolic links that were not followed.
	Links int `json:"links,omitempty"`
	// Special are FIFOs, sockets and devices, which are never opened.
	Special int `json:"special,omitempty"`
	// TooLarge are files over a limit of Grep.
	TooLarge int `json:"tooLarge,omitempty"`
	// Unreadable could not be opened or read.
	Unreadable int `json:"unreadable,omitempty"`
	// Problems name the first few that were too large or unreadable.
	Problems []Problem `json:"problems,omitempty"`

	searched int // files that were not skipped
}

// Problem is why one entry could not be looked at.
type Problem struct {
	Path string         `json:"path"`
	Code workspace.Code `json:"code"`
}

// maxProblems is how many Problems a result names.
const maxProblems = 10

// Total is the number of entries that were skipped.
func (s *Skipped) Total() int {
	return s.Hidden + s.Ignored + s.Links + s.Special + s.TooLarge + s.Unreadable
}

// Add adds what another search skipped.
func (s *Skipped) Add(o *Skipped) {
	s.searched += o.searched
	s.Hidden += o.Hidden
	s.Ignored += o.Ignored
	s.Links += o.Links
	s.Special += o.Special
	s.TooLarge += o.TooLarge
	s.Unreadable += o.Unreadable
	s.Problems = append(s.Problems, o.Problems[:min(len(o.Problems), maxProblems-len(s.Problems))]...)
}

// fail counts an entry that was listed and then could not be looked at. One that
// is gone does not count: it is not there.
func (s *Skipped) fail(name string, err error) {
	switch code := workspace.CodeOf(err); code {
	case workspace.ErrNotFound:
	case workspace.ErrNotFile:
		s.Special++
	case workspace.ErrTooLarge:
		s.TooLarge++
		s.problem(name, code)
	default:
		s.Unreadable++
		s.problem(name, code)
	}
}

func (s *Skipped) problem(name string, code workspace.Code) {
	if len(s.Problems) < maxProblems {
		s.Problems = append(s.Problems, Problem{name, code})
	}
}

// joined is rel below base; both relative to the root, "." is the place itself.
func joined(base, rel string) string {
	switch {
	case rel == ".":
		return base
	case base == ".":
		return rel
	}
	return base + "/" + rel
}

// tidy takes repeated slashes and "." out of a path relative to the root. One
// with ".." is left alone: what that means is known only where links are.
func tidy(rel string) string {
	for part := range strings.SplitSeq(rel, "/") {
		if part == ".." {
			return rel
		}
	}
	return path.Clean(rel)
}
