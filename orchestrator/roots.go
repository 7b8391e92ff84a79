//go:build unix

package orchestrator

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

// makeRoot makes a root of our own and fills it.
func (o *Orchestrator) makeRoot(ctx context.Context, w Workspace) error {
	if err := os.Mkdir(w.Root, 0o700); err != nil {
		return workspace.Errorf(workspace.ErrIO, "create", w.Root, "%w", err)
	}
	s := w.Source
	switch {
	case s.Template != "":
		if err := o.copyTemplate(ctx, s.Template, w.Root); err != nil {
			return err
		}
	case s.Snapshot != "":
		if err := o.fork(ctx, s.Workspace, s.Snapshot, w.Root); err != nil {
			return err
		}
	case s.Tar != "":
		if err := o.unpackUpload(ctx, s.Tar, w.Root); err != nil {
			return err
		}
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return o.giveAway(w.Root)
}

// forker is a workspace.Snapshotter that can make a directory of a snapshot.
type forker interface {
	Fork(ctx context.Context, id, dir string) (workspace.Snapshot, error)
}

// fork makes an empty directory what a snapshot of another workspace holds.
func (o *Orchestrator) fork(ctx context.Context, ref, id, dir string) error {
	ws, done, err := o.Open(ctx, ref)
	if err != nil {
		return err
	}
	defer done()
	all, err := ws.Snapshots()
	if err != nil {
		return err
	}
	f, ok := all.(forker)
	if !ok {
		return workspace.Errorf(workspace.ErrUnsupported, "create", ref, "a workspace cannot begin with a snapshot on this server")
	}
	_, err = f.Fork(ctx, id, dir)
	return err
}

// unpackLimits bound what one tar may make: bytes of files, files and directories,
// and bytes of their names.
type unpackLimits struct {
	bytes   int64
	entries int
	names   int64
}

const (
	// DefaultMaxUnpacked bounds what one tar holds, in bytes.
	DefaultMaxUnpacked = 16 << 30
	maxUnpackedEntries = 2 << 20
	maxUnpackedNames   = 64 << 20
)

// unpackUpload makes an empty directory what an uploaded tar holds.
func (o *Orchestrator) unpackUpload(ctx context.Context, id, dir string) error {
	f, err := o.openUpload(id)
	if err != nil {
		return err
	}
	defer f.Close()
	return unpack(ctx, f, dir, unpackLimits{o.cfg.MaxUnpacked, maxUnpackedEntries, maxUnpackedNames})
}

// giveAway makes a new tree, which nobody else has seen yet, belong to who runs
// the commands: as root they would have root's rights over its files.
func (o *Orchestrator) giveAway(root string) error {
	err := filepath.WalkDir(root, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, o.cfg.RootUID, o.cfg.RootGID)
	})
	if err != nil {
		return workspace.Errorf(workspace.ErrIO, "create", root, "%w", err)
	}
	return nil
}

// copyTemplate copies a directory of the administrator's: files, directories
// and links as links. Anything else in it is an error.
func (o *Orchestrator) copyTemplate(ctx context.Context, name, root string) error {
	const op = "create"
	if o.cfg.Templates == "" {
		return workspace.Errorf(workspace.ErrNotFound, op, name, "this server has no templates; start it with --templates DIR")
	}
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return workspace.Errorf(workspace.ErrInvalidArgument, op, name, "a template is named by one directory of the server's templates")
	}
	from := filepath.Join(o.cfg.Templates, name)
	if fi, err := os.Lstat(from); err != nil || !fi.IsDir() {
		return workspace.Errorf(workspace.ErrNotFound, op, name, "there is no such template on this server")
	}
	tree, ok := os.DirFS(from).(fs.ReadLinkFS)
	if !ok {
		return workspace.Errorf(workspace.ErrUnsupported, op, name, "this system cannot copy a template")
	}
	if err := os.CopyFS(root, untilDone{tree, ctx}); err != nil {
		if ctx.Err() != nil {
			return workspace.Errorf(workspace.ErrAborted, op, name, "%w", ctx.Err())
		}
		return workspace.Errorf(workspace.ErrIO, op, name, "the template: %w", err)
	}
	return nil
}

// untilDone is a tree that cannot be read any more once its context has ended,
// so that a copy stops between two files.
type untilDone struct {
	fs.ReadLinkFS
	ctx context.Context //nolint:containedctx // the life of one copy
}

// Open implements fs.FS.
func (t untilDone) Open(name string) (fs.File, error) {
	if err := t.ctx.Err(); err != nil {
		return nil, err
	}
	return t.ReadLinkFS.Open(name)
}
