package host

import (
	"bytes"
	"context"
	"strconv"

	"golang.org/x/sys/unix"
)

// Attributes lists the names of an entry's extended attributes (xattr(7)),
// without following a link; none where the file system has none.
func (r *Root) Attributes(ctx context.Context, name string) ([]string, error) {
	const op = "listxattr"
	if err := r.begin(ctx, op, name); err != nil {
		return nil, err
	}
	defer r.calls.leave()
	fd, _, err := r.lookup(name, false)
	if err != nil {
		return nil, asError(op, name, err)
	}
	defer closeFD(fd)
	// By way of /proc: flistxattr(2) refuses what is held without being opened.
	held := "/proc/self/fd/" + strconv.Itoa(fd)
	buf := r.bufs.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer r.bufs.Put(buf)
	n, err := unix.Listxattr(held, *buf)
	if err == unix.ENOTSUP {
		return nil, nil
	}
	if err != nil {
		return nil, asError(op, name, err)
	}
	var names []string
	for part := range bytes.SplitSeq((*buf)[:n], []byte{0}) {
		if len(part) > 0 {
			names = append(names, string(part))
		}
	}
	return names, nil
}
