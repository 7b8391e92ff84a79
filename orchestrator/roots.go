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
		from, err := o.Get(s.Workspace)
		if err != nil {
			return err
		}
		if o.cfg.Fork == nil {
			return workspace.Errorf(workspace.ErrUnsupported, "create", w.Name, "this server keeps no snapshots")
		}
		if err := o.cfg.Fork(ctx, from, s.Snapshot, w.Root); err != nil {
			return err
		}
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return o.giveAway(w.Root)
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
