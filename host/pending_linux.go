package host

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// PendingName is the directory in the state through which entries pass that
// are being removed or replaced. Their names there begin with what happens to
// them, and the time in seconds:
//
//	moved-…      on the way, and not yet known to be the right one
//	delete-…     known to be the right one; being deleted
//	quarantine-… the wrong one, which could not be put back
//	recovered-…  was left as moved by a crash
const PendingName = "pending"

const (
	kindMoved      = "moved"
	kindDelete     = "delete"
	kindQuarantine = "quarantine"
	kindRecovered  = "recovered"
)

// pendingName makes a name in the pending directory.
func pendingName(kind string) string {
	var b [8]byte
	rand.Read(b[:])
	return fmt.Sprintf("%s-%d-%s", kind, time.Now().Unix(), hex.EncodeToString(b[:]))
}

// parsePending takes such a name apart; ok is false for a name of another
// make.
func parsePending(name string) (kind string, at time.Time, ok bool) {
	kind, rest, found := strings.Cut(name, "-")
	if !found {
		return "", time.Time{}, false
	}
	text, _, found := strings.Cut(rest, "-")
	sec, err := strconv.ParseInt(text, 10, 64)
	if !found || err != nil {
		return "", time.Time{}, false
	}
	switch kind {
	case kindMoved, kindDelete, kindQuarantine, kindRecovered:
		return kind, time.Unix(sec, 0), true
	}
	return "", time.Time{}, false
}

// openPending makes and holds the pending directory; the caller closes it.
func (r *Root) openPending() (int, error) { return r.openStateDir(PendingName) }

// openStateDir makes and holds a directory of the state.
func (r *Root) openStateDir(name string) (int, error) {
	state, err := r.openState()
	if err != nil {
		return -1, err
	}
	defer closeFD(state)
	fd, _, err := r.openOwn(state, name)
	return fd, err
}

// moveAside moves the entry of p into dir under name, in one step that
// replaces nothing, and checks that it is the entry p holds. When it is not,
// because the name was given to another one meanwhile, it is put back.
func (r *Root) moveAside(p *place, dir int, name string) error {
	restore, err := r.unlock(p)
	if err != nil {
		return err
	}
	defer restore()
	r.hooks.at("move aside")
	err, noFlags := r.renameAt(p.dir, p.base, dir, name, unix.RENAME_NOREPLACE)
	if noFlags {
		// The name is random and the directory ours alone, so nothing
		// is replaced without the flag either.
		err, _ = r.renameAt(p.dir, p.base, dir, name, 0)
	}
	if err != nil {
		return err
	}
	r.hooks.at("verify")
	return r.verifyMoved(p, dir, name)
}

// verifyMoved undoes a move of p's entry that took another one.
func (r *Root) verifyMoved(p *place, dir int, name string) error {
	if !r.hooks.on(guardVerify) {
		return nil
	}
	var st unix.Stat_t
	err := statEntry(dir, name, &st)
	if err == nil && identityOf(&st) == identityOf(&p.st) {
		return nil
	}
	if err == nil {
		err, _ = r.renameAt(dir, name, p.dir, p.base, unix.RENAME_NOREPLACE)
	}
	if err == nil {
		return refuse(workspace.ErrConflict, "another entry was given this name meanwhile; it is back in its place: look again and repeat")
	}
	where, qerr := r.quarantine(dir, name)
	if qerr != nil {
		where = name
	}
	return refuse(workspace.ErrConflict, "another entry was given this name meanwhile, and it could not be put back; it is kept as %s", where)
}

// quarantine puts an entry that is nobody's to delete where it is kept, and
// returns the path of it below the root.
func (r *Root) quarantine(dir int, name string) (string, error) {
	pending, err := r.openPending()
	if err != nil {
		return "", err
	}
	defer closeFD(pending)
	kept := pendingName(kindQuarantine)
	if err, _ := r.renameAt(dir, name, pending, kept, unix.RENAME_NOREPLACE); err != nil {
		return "", err
	}
	where := StateName + "/" + PendingName + "/" + kept
	r.log.Warn("an entry that a race put aside is in quarantine", "root", r.name, "path", where)
	return where, nil
}

// unlock makes a directory movable: its owner must be able to write it, since
// its ".." changes (rename(2)). restore gives it its mode back.
func (r *Root) unlock(p *place) (restore func(), err error) {
	const need = unix.S_IWUSR | unix.S_IXUSR
	if r.euid == 0 || !isType(&p.st, unix.S_IFDIR) || p.st.Mode&need == need || p.st.Uid != r.euid {
		return func() {}, nil
	}
	mode := p.st.Mode & 0o7777
	if err := r.chmodHeld(p.fd, mode|need); err != nil {
		return nil, err
	}
	return func() { _ = r.chmodHeld(p.fd, mode) }, nil
}
