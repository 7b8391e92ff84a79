package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/wsctl/wsctl/workspace"
)

// maxRetries bounds how often one edit is done anew.
const maxRetries = 16

// Edit implements workspace.Files: it reads, and writes on the condition that
// the file is still what was read. The server holds no lock while change runs.
// Edits of one file by this driver wait for each other. Where a plain write of
// this driver comes in between, change is called again with the new content;
// a change by anybody else is CONFLICT.
func (f *files) Edit(ctx context.Context, name string, o workspace.EditOptions, change func(old []byte) ([]byte, error)) (fs.FileInfo, error) {
	var changeErr error
	for try := 0; ; try++ {
		before := f.changes.Load()
		fi, err := f.edit(ctx, name, o, func(old []byte) ([]byte, error) {
			var content []byte
			content, changeErr = change(old)
			return content, changeErr
		})
		switch {
		case changeErr != nil:
			return nil, changeErr
		case !errors.Is(err, workspace.ErrConflict), o.IfVersion != "", try == maxRetries, f.changes.Load() == before:
			return fi, err
		}
	}
}

func (f *files) edit(ctx context.Context, name string, o workspace.EditOptions, change func([]byte) ([]byte, error)) (fs.FileInfo, error) {
	old, fi, unlock, err := f.lockAndRead(ctx, name, o)
	if err != nil {
		return nil, err
	}
	defer unlock()
	content, err := change(old)
	if err != nil {
		return nil, err
	}
	if o.MaxBytes > 0 && int64(len(content)) > o.MaxBytes {
		return nil, workspace.Errorf(workspace.ErrTooLarge, "edit", name, "the edited file has %d bytes; the limit is %d", len(content), o.MaxBytes)
	}
	return f.Write(ctx, name, bytes.NewReader(content), workspace.WriteOptions{Force: o.Force, IfVersion: fi.stat.Version})
}

// lockAndRead reads a file while no other edit of it by this driver is under
// way. The lock is on the file, by whatever name it is reached; a write gives
// the name another file, so it is looked at again once the lock is held.
func (f *files) lockAndRead(ctx context.Context, name string, o workspace.EditOptions) ([]byte, *fileInfo, func(), error) {
	for {
		before := f.changes.Load()
		old, fi, err := f.readAll(ctx, name, o)
		if err != nil {
			return nil, nil, nil, err
		}
		unlock, err := f.edits.lock(ctx, fi.stat.ID)
		if err != nil {
			return nil, nil, nil, err
		}
		if f.changes.Load() == before {
			return old, fi, unlock, nil
		}
		again, now, err := f.readAll(ctx, name, o)
		if err == nil && now.stat.ID == fi.stat.ID {
			return again, now, unlock, nil
		}
		unlock()
		if err != nil {
			return nil, nil, nil, err
		}
	}
}

func (f *files) readAll(ctx context.Context, name string, o workspace.EditOptions) ([]byte, *fileInfo, error) {
	const op = "edit"
	file, err := f.open(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	if o.IfVersion != "" && file.info.stat.Version != o.IfVersion {
		return nil, nil, workspace.Errorf(workspace.ErrConflict, op, name, "the file has changed since; read it again")
	}
	if o.MaxBytes > 0 && file.info.size > o.MaxBytes {
		return nil, nil, workspace.Errorf(workspace.ErrTooLarge, op, name, "the file has %d bytes; the limit is %d", file.info.size, o.MaxBytes)
	}
	b := bytes.NewBuffer(make([]byte, 0, min(file.info.size, transferSize)+bytes.MinRead))
	if _, err := b.ReadFrom(file); err != nil && err != io.EOF {
		return nil, nil, err
	}
	return b.Bytes(), file.info, nil
}

// locks are locks by name, made when they are wanted.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	free chan struct{} // holds one value while nobody has the lock
	want int           // guarded by locks.mu
}

// lock waits for a lock, or for the end of ctx.
func (l *locks) lock(ctx context.Context, id string) (unlock func(), err error) {
	l.mu.Lock()
	k := l.held[id]
	if k == nil {
		k = &lock{free: make(chan struct{}, 1)}
		k.free <- struct{}{}
		l.held[id] = k
	}
	k.want++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.want--; k.want == 0 {
			delete(l.held, id)
		}
	}
	select {
	case <-k.free:
		return func() { k.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
