//go:build unix

package main

import (
	"context"
	"io/fs"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// facts are what is known of a file, in JSON.
type facts struct {
	Kind string `json:"kind"`
	Size int64  `json:"size"`
	// Mode is in octal digits, special bits included.
	Mode     string    `json:"mode"`
	Modified time.Time `json:"modified"`
	UID      uint32    `json:"uid"`
	GID      uint32    `json:"gid"`
	Links    uint64    `json:"links"`
	// Version changes with the content; --if-version takes it.
	Version string `json:"version"`
	// Target is the text of a link.
	Target       *string `json:"target,omitempty"`
	TargetBase64 string  `json:"targetBase64,omitempty"`
	// target is the exact text.
	target string
}

func newFacts(fi fs.FileInfo) facts {
	f := facts{Kind: kind(fi.Mode()), Size: fi.Size(), Mode: octal(fi.Mode()), Modified: fi.ModTime().UTC(), Version: workspace.VersionOf(fi)}
	if st, ok := fi.Sys().(*workspace.FileStat); ok {
		f.UID, f.GID, f.Links = st.UID, st.GID, st.Links
	}
	return f
}

// pointTo adds where a link points.
func (f *facts) pointTo(target string) {
	valid, exact := text([]byte(target))
	f.Target, f.TargetBase64, f.target = &valid, exact, target
}

// pathFacts are the facts of the file that a path names.
type pathFacts struct {
	pathText
	facts
}

// entryFacts are the facts of an entry of a directory.
type entryFacts struct {
	Name       string `json:"name"`
	NameBase64 string `json:"nameBase64,omitempty"`
	facts
}

// target reads the link name, which is no link any more when ok is false.
func (t *tree) target(ctx context.Context, name string) (target string, ok bool, err error) {
	target, err = t.ReadLink(ctx, name)
	switch workspace.CodeOf(err) {
	case "":
		return target, err == nil, err
	case workspace.ErrNotFound, workspace.ErrInvalidPath:
		return "", false, nil
	}
	return "", false, err
}
