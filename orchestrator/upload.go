//go:build unix

package orchestrator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

const (
	// uploadsName is the directory of what was uploaded, in Dir.
	uploadsName = "uploads"
	// keepUpload is how long after it came an upload can be used.
	keepUpload = time.Hour
	// maxUploads bounds how many wait to be used.
	maxUploads = 64
	// DefaultMaxUpload bounds one upload, in bytes.
	DefaultMaxUpload = 4 << 30
)

// Upload keeps what r holds, a tar or a git bundle, for a Create that names it in
// its Source. It is known by its content: the same again is the same upload. It is
// kept for an hour. TOO_LARGE when it is over Config.MaxUpload, TOO_MANY when too
// many wait already.
func (o *Orchestrator) Upload(ctx context.Context, r io.Reader) (Upload, error) {
	u, err := o.upload(ctx, r)
	return u, o.logged(ctx, "upload", Workspace{Spec: Spec{Name: u.ID}}, err)
}

func (o *Orchestrator) upload(ctx context.Context, r io.Reader) (u Upload, err error) {
	const op = "upload"
	waiting, err := o.uploads()
	if err != nil {
		return u, err
	}
	if len(waiting) >= maxUploads {
		return u, workspace.Errorf(workspace.ErrTooMany, op, "", "%d uploads wait to be used; make workspaces of them, or try again in an hour", len(waiting))
	}
	f, err := os.CreateTemp(o.uploadDir(), ".new-*")
	if err != nil {
		return u, workspace.Errorf(workspace.ErrIO, op, "", "%w", err)
	}
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, hash), &untilEnd{ctx, io.LimitReader(r, o.cfg.MaxUpload+1)})
	var given *workspace.Error
	switch {
	case ctx.Err() != nil:
		return u, workspace.Errorf(workspace.ErrAborted, op, "", "%w", ctx.Err())
	case errors.As(err, &given):
		return u, err
	case err != nil:
		return u, workspace.Errorf(workspace.ErrIO, op, "", "%w", err)
	case n > o.cfg.MaxUpload:
		return u, workspace.Errorf(workspace.ErrTooLarge, op, "", "it has more than the %d bytes that this server takes", o.cfg.MaxUpload)
	}
	u = Upload{ID: hex.EncodeToString(hash.Sum(nil)), Size: n, Expires: time.Now().Add(keepUpload).UTC().Truncate(time.Second)}
	if err := os.Rename(f.Name(), filepath.Join(o.uploadDir(), u.ID)); err != nil {
		return u, workspace.Errorf(workspace.ErrIO, op, "", "%w", err)
	}
	return u, nil
}

// untilEnd is a reader that fails once its context has ended.
type untilEnd struct {
	ctx context.Context //nolint:containedctx // the life of one copy
	r   io.Reader
}

func (u *untilEnd) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

func (o *Orchestrator) uploadDir() string { return filepath.Join(o.cfg.Dir, uploadsName) }

// clearUploads makes the directory of uploads anew: those of an earlier process
// may be half of one.
func (o *Orchestrator) clearUploads() error {
	err := os.RemoveAll(o.uploadDir())
	if err == nil {
		err = os.Mkdir(o.uploadDir(), 0o700)
	}
	if err != nil {
		return workspace.Errorf(workspace.ErrIO, "open", uploadsName, "%w", err)
	}
	return nil
}

// uploads lists what is in the directory, what is still coming included.
func (o *Orchestrator) uploads() ([]os.DirEntry, error) {
	list, err := os.ReadDir(o.uploadDir())
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrIO, "upload", "", "%w", err)
	}
	return list, nil
}

// expireUploads removes those that nobody has used in time.
func (o *Orchestrator) expireUploads(now time.Time) {
	list, err := o.uploads()
	if err != nil {
		o.log.Error("uploads cannot be removed", "err", err)
		return
	}
	for _, e := range list {
		fi, err := e.Info()
		if err == nil && now.Sub(fi.ModTime()) > keepUpload {
			_ = os.Remove(filepath.Join(o.uploadDir(), e.Name())) // the next sweep tries again
		}
	}
}

// openUpload opens an upload by its id.
func (o *Orchestrator) openUpload(id string) (*os.File, error) {
	if !validUpload(id) {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "create", "", "an upload is named by the SHA-256 of its content, which uploading it returns")
	}
	f, err := os.OpenFile(filepath.Join(o.uploadDir(), id), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, workspace.Errorf(workspace.ErrNotFound, "create", "", "there is no such upload, or no longer; upload it again")
	case err != nil:
		return nil, workspace.Errorf(workspace.ErrIO, "create", "", "%w", err)
	}
	return f, nil
}

func validUpload(id string) bool {
	return len(id) == 2*sha256.Size && strings.Trim(id, "0123456789abcdef") == ""
}
