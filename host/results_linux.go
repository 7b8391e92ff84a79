package host

import (
	"context"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

var _ workspace.ResultStore = (*Root)(nil)

// maxResultName bounds each part of a result's name, in bytes.
const maxResultName = 128

// checkResultName refuses what could name anything but an entry of its own.
func checkResultName(part string) error {
	ok := part != "" && len(part) <= maxResultName && part[0] != '.'
	for i := range len(part) {
		c := part[i]
		ok = ok && (c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("._-", c) >= 0)
	}
	if !ok {
		return refuse(workspace.ErrInvalidArgument, "%q cannot name a result; use letters, digits, '.', '_' and '-', no dot first, at most %d bytes", part, maxResultName)
	}
	return nil
}

// SaveResult implements workspace.ResultStore. The result is there whole or not
// at all; it is not made durable, since nothing depends on it after a crash.
func (r *Root) SaveResult(ctx context.Context, run, call string, rd io.Reader, limit int64) error {
	const op = "save result"
	name := workspace.ResultsDir + "/" + run + "/" + call
	if err := r.begin(ctx, op, name); err != nil {
		return err
	}
	defer r.calls.leave()
	for _, part := range []string{run, call} {
		if err := checkResultName(part); err != nil {
			return asError(op, name, err)
		}
	}
	return asError(op, name, r.saveResult(ctx, run, call, rd, limit))
}

func (r *Root) saveResult(ctx context.Context, run, call string, rd io.Reader, limit int64) error {
	// The directory of the run is held first: a prune at the same time may
	// remove an empty one, and then the draft has no place to be linked to.
	results, err := r.openStateDir(ToolResults)
	if err != nil {
		return err
	}
	defer closeFD(results)
	d, err := r.newDraft(results, 0o600)
	if err != nil {
		return err
	}
	defer d.discard()
	if err := d.fill(ctx, rd, limit); err != nil {
		return err
	}
	if err := r.keepPrivate(d.fd); err != nil {
		return err
	}
	if d.temp == "" {
		temp := tempName()
		if err := d.link(temp); err != nil {
			return err
		}
		d.temp = temp
	}
	// A prune removes an empty directory at most once in the time that it
	// takes to make it again, but for a machine that is very busy.
	for try := 0; ; try++ {
		err := r.placeResult(d, results, run, call)
		if err != unix.ENOENT || try == 8 {
			return err
		}
	}
}

// placeResult gives the draft its name below results, in the place of an older
// result.
func (r *Root) placeResult(d *draft, results int, run, call string) error {
	dir, _, err := r.openOwn(results, run)
	if err != nil {
		return err
	}
	defer closeFD(dir)
	if err, _ := r.renameAt(d.dir, d.temp, dir, call, 0); err != nil {
		return err
	}
	d.temp = ""
	return nil
}

// PruneResults implements workspace.ResultStore. A run without results goes as
// well. What is no result of ours is left alone.
func (r *Root) PruneResults(ctx context.Context, age time.Duration) (int, error) {
	const op = "prune results"
	if err := r.begin(ctx, op, workspace.ResultsDir); err != nil {
		return 0, err
	}
	defer r.calls.leave()
	if id, ok := r.stateID(); !ok || id == (identity{}) {
		// Nothing was ever kept; a prune does not make the state.
		return 0, nil
	}
	results, err := r.openStateDir(ToolResults)
	if err != nil {
		return 0, asError(op, workspace.ResultsDir, err)
	}
	defer closeFD(results)
	gone, then := 0, time.Now().Add(-age)
	err = r.eachEntry(ctx, results, func(run string) error {
		if isTemp(run) {
			// What a crash left of a result under way.
			removeOld(results, run, time.Now().Add(-DefaultLeftoverAge))
			return nil
		}
		n, err := r.pruneRun(ctx, results, run, then)
		gone += n
		return err
	})
	return gone, asError(op, workspace.ResultsDir, err)
}

// pruneRun deletes the results of one run that were kept before then.
func (r *Root) pruneRun(ctx context.Context, results int, run string, then time.Time) (int, error) {
	dir, err := openAt(results, run, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		// A file, or a link that a repository brought along.
		return 0, nil
	}
	defer closeFD(dir)
	gone := 0
	err = r.eachEntry(ctx, dir, func(call string) error {
		if removeOld(dir, call, then) {
			gone++
		}
		return nil
	})
	// Not while it holds anything.
	_ = unix.Unlinkat(results, run, unix.AT_REMOVEDIR)
	return gone, err
}

// removeOld removes a regular file that was last written before then.
func removeOld(dir int, name string, then time.Time) bool {
	var st unix.Stat_t
	return statEntry(dir, name, &st) == nil && isType(&st, unix.S_IFREG) &&
		time.Unix(st.Mtim.Unix()).Before(then) && unix.Unlinkat(dir, name, 0) == nil
}

// eachEntry calls do with the name of each entry of the directory that fd
// holds.
func (r *Root) eachEntry(ctx context.Context, fd int, do func(name string) error) error {
	list, err := openList(fd)
	if err != nil {
		return err
	}
	defer closeFD(list)
	return readEntries(list, make([]byte, direntBuffer), func(e dirent) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return do(string(e.name))
	})
}
