//go:build linux

package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

const lockName = "lock"

// lockPause is how long a try to lock waits for the next.
const lockPause = 10 * time.Millisecond

// lock takes the store's lock, shared (unix.LOCK_SH) or exclusive
// (unix.LOCK_EX); with unix.LOCK_NB it is BUSY rather than waited for. Closing
// the file gives it back, and so does the end of the process, however it comes
// (flock(2)).
func (s *Store) lock(ctx context.Context, how int) (*os.File, error) {
	f, err := s.dir.openFile(lockName, unix.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = s.dir.create(lockName); errors.Is(err, fs.ErrExist) {
			f, err = s.dir.openFile(lockName, unix.O_RDWR)
		}
	}
	if err != nil {
		return nil, err
	}
	for {
		_, err := retry(func() (int, error) { return 0, unix.Flock(int(f.Fd()), how|unix.LOCK_NB) })
		if err == nil {
			return f, nil
		}
		if err == unix.EWOULDBLOCK && how&unix.LOCK_NB != 0 {
			err = workspace.Errorf(workspace.ErrBusy, "", "", "others use the snapshot store; try again when they are done")
		}
		if err != unix.EWOULDBLOCK {
			f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, &workspace.Error{Code: workspace.ErrAborted, Op: "lock", Err: ctx.Err()}
		case <-time.After(lockPause):
		}
	}
}
