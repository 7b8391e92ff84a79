package host

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many links one name may lead through, as in Linux
// (path_resolution(7)).
const maxLinks = 40

// walk resolves a name part by part. It is the answer where a name has links
// or "..", where a directory must be made on the way, and where openat2 is not
// to be had. It only ever goes down from the root, by openat with O_NOFOLLOW,
// and back up to a directory that it came through, so that no rename leads it
// out; and it meets every directory, so that it knows the state by its
// identity as well as by its name.
func (r *Root) walk(name string, w want) (*place, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	for range retries {
		p, err := r.walkOnce(name, w)
		if err != errMoved {
			return p, err
		}
	}
	return nil, refuse("BUSY", "directories on the way are being moved; try again")
}

// errMoved says that a directory was moved while a walk was below it.
var errMoved = refuse("BUSY", "a directory on the way was moved")

type walker struct {
	r    *Root
	w    want
	cur  int      // the directory reached so far, O_PATH
	id   identity // of cur
	path []identity
	// pending are the parts that are left, the next one last. The first own
	// of them are the caller's; the others come from a link.
	pending   []string
	own       int
	links     int
	directory bool
	linked    bool
}

func (r *Root) walkOnce(name string, w want) (*place, error) {
	s := split(name)
	wk := &walker{r: r, w: w, cur: r.fd, id: r.id, own: len(s.parts), directory: s.directory}
	wk.push(s.parts)
	p, err := wk.run()
	if err != nil {
		r.drop(wk.cur)
		return nil, err
	}
	return p, nil
}

func (wk *walker) push(parts []string) {
	for _, part := range slices.Backward(parts) {
		wk.pending = append(wk.pending, part)
	}
}

// run walks to the end. On success cur belongs to the place.
func (wk *walker) run() (*place, error) {
	for len(wk.pending) > 0 {
		if p, err := wk.step(); p != nil || err != nil {
			return p, err
		}
	}
	p := &place{r: wk.r, dir: wk.cur, fd: wk.cur, directory: wk.directory, linked: wk.linked}
	if err := unix.Fstat(wk.cur, &p.st); err != nil {
		return nil, err
	}
	if wk.r.isState(&p.st) {
		return nil, errState()
	}
	return p, nil
}

// step takes the next part. It returns the place when the walk ends there.
func (wk *walker) step() (*place, error) {
	part := wk.pending[len(wk.pending)-1]
	wk.pending = wk.pending[:len(wk.pending)-1]
	fromLink := len(wk.pending) >= wk.own
	wk.own = min(wk.own, len(wk.pending))
	if part == ".." {
		return nil, wk.up()
	}
	if err := wk.checkState(part); err != nil {
		return nil, err
	}
	return wk.down(part, fromLink)
}

// down goes to the entry part of cur. It returns the place when the walk ends
// there, and nil when it goes on.
func (wk *walker) down(part string, fromLink bool) (*place, error) {
	last := len(wk.pending) == 0
	fd, err := openAt(wk.cur, part, unix.O_PATH, 0)
	if err == unix.ENOENT {
		if last {
			return wk.missing(part, fromLink)
		}
		if climbs(len(wk.path)+1, wk.rest()) {
			return nil, errOutside()
		}
		if fd, err = wk.make(part, fromLink); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		closeFD(fd)
		return nil, err
	}
	if wk.r.opts.NoMounts {
		if err := wk.r.sameMount(fd, &st); err != nil {
			closeFD(fd)
			return nil, err
		}
	}
	switch {
	case isType(&st, unix.S_IFLNK) && (!last || wk.w.follow || wk.directory):
		defer closeFD(fd)
		wk.linked = wk.linked || last
		return nil, wk.follow(fd)
	case last && (!wk.directory || isType(&st, unix.S_IFDIR)):
		if isType(&st, unix.S_IFDIR) && wk.r.isState(&st) {
			closeFD(fd)
			return nil, errState()
		}
		return &place{r: wk.r, dir: wk.cur, base: part, fd: fd, st: st, directory: wk.directory, linked: wk.linked}, nil
	case !isType(&st, unix.S_IFDIR):
		closeFD(fd)
		if climbs(len(wk.path)+1, wk.rest()) {
			return nil, errOutside()
		}
		return nil, unix.ENOTDIR
	}
	wk.path = append(wk.path, wk.id)
	wk.enter(fd, identityOf(&st))
	return nil, nil
}

// missing is where a walk ends at a last part that is not there.
func (wk *walker) missing(part string, fromLink bool) (*place, error) {
	if fromLink && wk.r.hooks.on(guardDangling) {
		return nil, errDangling()
	}
	return &place{r: wk.r, dir: wk.cur, base: part, fd: -1, directory: wk.directory, linked: wk.linked}, nil
}

// rest are the parts that are left, in the order they come.
func (wk *walker) rest() []string {
	rest := slices.Clone(wk.pending)
	slices.Reverse(rest)
	return rest
}

// make makes the missing directory part of cur when the caller wants that, and
// holds it. What is then opened may be another directory that was put there:
// it lies inside all the same.
func (wk *walker) make(part string, fromLink bool) (int, error) {
	if fromLink && wk.r.hooks.on(guardDangling) {
		return -1, errDangling()
	}
	if !wk.w.parents || slices.Contains(wk.pending, "..") {
		return -1, unix.ENOENT
	}
	made := unix.Mkdirat(wk.cur, part, 0o777)
	if made != nil && made != unix.EEXIST {
		return -1, made
	}
	fd, err := openAt(wk.cur, part, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		return -1, errMoved
	}
	if err != nil {
		return -1, err
	}
	if made == nil {
		if err := wk.r.give(fd); err != nil {
			closeFD(fd)
			return -1, err
		}
	}
	return fd, nil
}

// up goes to the directory that cur was reached from.
func (wk *walker) up() error {
	if len(wk.path) == 0 {
		if !wk.r.hooks.on(guardBeneath) {
			return wk.escape()
		}
		return errOutside()
	}
	parent := wk.path[len(wk.path)-1]
	wk.path = wk.path[:len(wk.path)-1]
	if len(wk.path) == 0 {
		wk.enter(wk.r.fd, wk.r.id)
		return nil
	}
	fd, err := openAt(wk.cur, "..", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		closeFD(fd)
		return err
	}
	if identityOf(&st) != parent {
		closeFD(fd)
		return errMoved
	}
	wk.enter(fd, parent)
	return nil
}

// escape goes above the root; only a test that switches the guard off gets
// here, to see that the attack is real.
func (wk *walker) escape() error {
	fd, err := openAt(wk.cur, "..", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		wk.enter(fd, identity{})
	}
	return err
}

func (wk *walker) enter(fd int, id identity) {
	wk.r.drop(wk.cur)
	wk.cur, wk.id = fd, id
}

// follow puts the text of the link that fd holds in front of what is left.
func (wk *walker) follow(fd int) error {
	if wk.links++; wk.links > maxLinks {
		return unix.ELOOP
	}
	if wk.inState() {
		// Nothing in the state is a link of ours.
		return errState()
	}
	text, err := readLink(fd)
	if err != nil {
		return err
	}
	return wk.jump(text)
}

// jump goes on with the text of a link that lies in cur.
func (wk *walker) jump(text string) error {
	s := split(text)
	if strings.HasPrefix(text, "/") {
		rest, ok := wk.r.below(s.parts)
		if !ok {
			return errOutside()
		}
		s.parts = rest
		wk.path = wk.path[:0]
		wk.enter(wk.r.fd, wk.r.id)
	}
	if len(wk.pending) == 0 {
		wk.directory = wk.directory || s.directory
	}
	wk.push(s.parts)
	return nil
}

// below takes the root's own spelling off the parts of an absolute path.
func (r *Root) below(parts []string) (rest []string, ok bool) {
	for _, guest := range r.guests {
		if len(parts) >= len(guest) && slices.Equal(parts[:len(guest)], guest) {
			return parts[len(guest):], true
		}
	}
	return nil, false
}

// inState reports whether cur is the state or lies in it.
func (wk *walker) inState() bool {
	st, ok := wk.r.stateID()
	return ok && (wk.id == st || slices.Contains(wk.path, st))
}

// checkState refuses to go from cur to its entry part where the state is
// closed: everything for a change; for reading all but what is below
// tool-results.
func (wk *walker) checkState(part string) error {
	if !wk.r.hooks.on(guardState) {
		return nil
	}
	if len(wk.path) == 0 && wk.cur == wk.r.fd && reserved(part) {
		if wk.w.change || part != StateName || len(wk.pending) == 0 || wk.pending[len(wk.pending)-1] != ToolResults {
			return errState()
		}
		return nil
	}
	if st, ok := wk.r.stateID(); ok && wk.id == st && (wk.w.change || part != ToolResults) {
		return errState()
	}
	return nil
}

func errOutside() error {
	return refuse("OUTSIDE_ROOT", "the path leads out of the workspace; use one below its root")
}

func errState() error {
	return refuse("INVALID_PATH", "%s is the workspace's own state; only %s/%s can be read", StateName, StateName, ToolResults)
}

func errDangling() error {
	return refuse("NOT_FOUND", "a link leads to something that is not there; make its target first, or remove the link")
}

// readLink is the text of the link that the O_PATH descriptor fd holds.
func readLink(fd int) (string, error) {
	for size := 256; ; size *= 2 {
		b := make([]byte, size)
		n, err := unix.Readlinkat(fd, "", b)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(b[:n]), nil
		}
	}
}
