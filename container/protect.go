//go:build unix

package container

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// Protected directories of the root can be read by commands and not changed. Each
// is a read-only mount, and each directory above it, below the root, is a mount by
// itself: a directory that is one can be neither renamed nor removed, so that nobody
// inside can put another in its place. Files are not protected: the usual way to
// save one, a rename over it, takes a mount away from its name.

// checkProtect refuses what cannot be protected, and sorts out what lies in another.
func checkProtect(paths []string) ([]string, error) {
	var list []string
	for _, p := range paths {
		name := strings.TrimSuffix(strings.TrimPrefix(p, guestRoot+"/"), "/")
		switch {
		case !fs.ValidPath(name) || name == ".":
			return nil, protectError(workspace.ErrInvalidArgument, p, "name a directory below the root, without . and ..")
		case strings.EqualFold(strings.Split(name, "/")[0], host.StateName):
			return nil, protectError(workspace.ErrInvalidArgument, p, "commands neither see nor change the workspace's state anyway")
		}
		list = append(list, name)
	}
	slices.Sort(list)
	// What lies in a protected directory is protected with it.
	kept := list[:0]
	for _, name := range list {
		if len(kept) == 0 || !below(name, kept[len(kept)-1]) {
			kept = append(kept, name)
		}
	}
	return kept, nil
}

func protectError(code workspace.Code, p, format string, args ...any) error {
	return workspace.Errorf(code, "protect", p, format, args...)
}

// protectedDirs are the directories that protect names, and those above them, by
// name below the root; true for what is read-only. Those above come first.
func protectedDirs(protect []string) (names []string, readOnly map[string]bool) {
	readOnly = map[string]bool{}
	for _, p := range protect {
		for i, c := range p {
			if c == '/' && !slices.Contains(names, p[:i]) {
				names = append(names, p[:i])
			}
		}
		names = append(names, p)
		readOnly[p] = true
	}
	return names, readOnly
}

// planProtect makes what is missing of the protected directories and adds their
// mounts to plan. What it makes is told by made, the deepest last.
func (d *Driver) planProtect(ctx context.Context, plan *mountPlan) (made []string, err error) {
	names, readOnly := protectedDirs(d.opts.Protect)
	for _, name := range names {
		id, isNew, err := d.protectedDir(ctx, name)
		if err != nil {
			return made, err
		}
		if isNew {
			made = append(made, name)
		}
		target := path.Join(guestRoot, name)
		plan.Mounts = append(plan.Mounts, bind(path.Join(d.facts.Real, name), target, !readOnly[name]))
		plan.Sources[target] = id
	}
	return made, nil
}

// protectedDir finds the directory, or makes an empty one as a placeholder.
func (d *Driver) protectedDir(ctx context.Context, name string) (id fileID, isNew bool, err error) {
	id, err = d.identifyBelow(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.root.Mkdir(ctx, name, workspace.MkdirOptions{}); err != nil && !errors.Is(err, fs.ErrExist) {
			return id, false, err
		}
		isNew = true
		id, err = d.identifyBelow(name)
	}
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return id, isNew, protectError(workspace.ErrNotDirectory, name, "only directories without a link in their path can be protected; name the directory itself")
	case err != nil:
		return id, isNew, protectError(workspace.ErrIO, name, "%w", err)
	}
	return id, isNew, nil
}

// identifyBelow is the identity of a directory of the root, no link followed.
func (d *Driver) identifyBelow(name string) (fileID, error) {
	at := d.dir
	var id fileID
	for i, part := range strings.Split(name, "/") {
		next, st, err := openDirectoryAt(int(at.Fd()), part, unix.O_NOFOLLOW)
		if i > 0 {
			_ = at.Close()
		}
		if err != nil {
			return fileID{}, err
		}
		at, id = next, fileID{uint64(st.Dev), uint64(st.Ino)}
	}
	_ = at.Close()
	return id, nil
}

// unprotected is a protected directory that is another one by now, "" for none: a
// mount stays with the directory that was there.
func (d *Driver) unprotected(b *box) string {
	names, _ := protectedDirs(d.opts.Protect)
	for _, name := range names {
		id, err := d.identifyBelow(name)
		if want, asked := b.protected[path.Join(guestRoot, name)]; asked && (err != nil || id != want) {
			return name
		}
	}
	return ""
}

// protectedIDs are the identities of the protected directories in a list of sources.
func (d *Driver) protectedIDs(sources map[string]fileID) map[string]fileID {
	ids := map[string]fileID{}
	names, _ := protectedDirs(d.opts.Protect)
	for _, name := range names {
		if id, ok := sources[path.Join(guestRoot, name)]; ok {
			ids[path.Join(guestRoot, name)] = id
		}
	}
	return ids
}

// removePlaceholders removes the directories that were made for a mount and are
// still empty.
func (d *Driver) removePlaceholders(ctx context.Context) {
	for _, name := range slices.Backward(d.placeholders) {
		// Not empty any more, or not there: somebody uses it.
		_ = d.root.Remove(ctx, name, workspace.RemoveOptions{})
	}
	d.placeholders = nil
}

// protectWritable are the targets of the directories above protected ones.
func protectWritable(protect []string) []string {
	names, readOnly := protectedDirs(protect)
	var targets []string
	for _, name := range names {
		if !readOnly[name] {
			targets = append(targets, path.Join(guestRoot, name))
		}
	}
	return targets
}
