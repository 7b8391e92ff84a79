package host

import (
	"context"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

var _ workspace.Subtreer = (*Root)(nil)

// Subtree implements workspace.Subtreer: what it returns is a Root of the
// directory, with the locks, the state and the life of this one. So everything
// that holds for a root holds for it: no name leads out of it, also not to
// another place in this root, whoever swaps directories for links meanwhile. An
// entry at its top that has the state's name is as closed as in a root.
//
// It is UNSUPPORTED for a directory of another file system that is mounted in
// the root, and INVALID_PATH for the state. Close it once its calls have ended.
func (r *Root) Subtree(ctx context.Context, name string) (workspace.Tree, error) {
	const op = "open"
	if err := r.begin(ctx, op, name); err != nil {
		return nil, err
	}
	defer r.calls.leave()
	sub, err := r.subtree(name)
	if err != nil {
		return nil, asError(op, name, err)
	}
	return sub, nil
}

func (r *Root) subtree(name string) (*Root, error) {
	// Asked for as something to change, so that no part of the state is it.
	p, err := r.locate(name, want{follow: true, change: true})
	if err != nil {
		return nil, err
	}
	if !p.exists() {
		p.close()
		return nil, unix.ENOENT
	}
	st := p.st
	fd, err := p.keep()
	if err != nil {
		return nil, err
	}
	switch {
	case !isType(&st, unix.S_IFDIR):
		err = unix.ENOTDIR
	case uint64(st.Dev) != r.id.dev:
		err = errMounted()
	}
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	parts := split(name).parts
	path := strings.Join(parts, "/")
	s := &Root{
		name: r.name + "/" + path, real: r.real + "/" + path, prefix: r.prefix + path + "/",
		opts: r.opts, log: r.log, hooks: r.hooks,
		fd: fd, proc: r.proc, id: identityOf(&st), mount: r.mount, euid: r.euid, uid: r.uid, gid: r.gid, fast: r.fast,
		whole: r, calls: r.calls, locks: r.locks, state: r.state,
	}
	s.bufs = sync.Pool{New: func() any { return r.bufs.Get() }}
	for _, g := range r.guests {
		s.guests = append(s.guests, slices.Concat(g, parts))
	}
	return s, nil
}

// closeSubtree lets the directory go; the rest is the whole root's.
func (r *Root) closeSubtree() {
	r.closeView()
	closeFD(r.fd)
}
