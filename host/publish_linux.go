package host

import (
	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// renameAt is renameat2(2). noFlags tells that the kernel or the file system
// does not have the flags.
func (r *Root) renameAt(fromDir int, from string, toDir int, to string, flags uint) (err error, noFlags bool) { //nolint:revive,staticcheck // the flag explains the error
	if flags != 0 && r.hooks != nil && r.hooks.noFlags {
		return unix.EINVAL, true
	}
	err = ignoreIntr(func() error { return unix.Renameat2(fromDir, from, toDir, to, flags) })
	switch err {
	case unix.ENOSYS, unix.EOPNOTSUPP:
		return err, true
	case unix.EINVAL:
		// EINVAL is also the answer to a move of a directory below
		// itself, which has a base of its own in every caller but
		// Rename.
		return err, flags != 0
	}
	return err, false
}

// publishNew gives the draft a name that must be free: EEXIST when it is not.
func (d *draft) publishNew(name string) error {
	d.r.hooks.at("publish")
	if d.temp == "" {
		return d.link(name)
	}
	err, noFlags := d.r.renameAt(d.dir, d.temp, d.dir, name, unix.RENAME_NOREPLACE)
	if !noFlags {
		if err == nil {
			d.temp = ""
		}
		return err
	}
	// Both names exist for a moment; discard removes the temporary one.
	return ignoreIntr(func() error { return unix.Linkat(d.dir, d.temp, d.dir, name, 0) })
}

// publishOver puts the draft in the place of the file that p holds. The two
// change places in one step, so that the name is never without a file; then
// what was displaced is looked at: when it is not the file that p holds, as it
// was, they change back and the caller is told.
//
// What remains: a change in place that keeps the size and forges the
// modification time, in the microseconds between the last look and the
// exchange, and a write after the exchange by a process that has the old file
// open. The kernel offers no way to see either.
func (d *draft) publishOver(p *place) error {
	if d.temp == "" {
		d.r.hooks.at("link")
		temp := tempName()
		if err := d.link(temp); err != nil {
			return err
		}
		d.temp = temp
	}
	d.r.hooks.at("look")
	var now unix.Stat_t
	if err := unix.Fstat(p.fd, &now); err != nil {
		return err
	}
	check := d.r.hooks.on(guardConflict)
	if check && versionOf(&now) != versionOf(&p.st) {
		return errConflict()
	}
	d.r.hooks.at("publish")
	err, noFlags := d.r.renameAt(d.dir, d.temp, d.dir, p.base, unix.RENAME_EXCHANGE)
	switch {
	case noFlags:
		return d.publishBlind(p)
	case err == unix.ENOENT:
		return errConflict()
	case err != nil:
		return err
	}
	d.r.hooks.at("check")
	var old unix.Stat_t
	if err := statEntry(d.dir, d.temp, &old); err != nil {
		return err
	}
	if check && !sameContent(&old, &now) {
		return d.takeBack(p.base)
	}
	d.r.hooks.at("unlink")
	if err := unix.Unlinkat(d.dir, d.temp, 0); err != nil {
		d.r.log.Warn("a replaced file could not be removed; it is left under a temporary name",
			"root", d.r.name, "name", d.temp, "error", err)
	}
	d.temp = ""
	return nil
}

// sameContent reports whether a is the file b, not changed since. The change
// time is left out: the exchange sets it.
func sameContent(a, b *unix.Stat_t) bool {
	return identityOf(a) == identityOf(b) && a.Size == b.Size && a.Mtim == b.Mtim && a.Mode == b.Mode
}

// publishBlind replaces the file without flags of renameat2, where they are
// missing: a file that is put in its place between the look and the rename is
// lost.
func (d *draft) publishBlind(p *place) error {
	var now unix.Stat_t
	if err := statEntry(d.dir, p.base, &now); err != nil || versionOf(&now) != versionOf(&p.st) {
		return errConflict()
	}
	err, _ := d.r.renameAt(d.dir, d.temp, d.dir, p.base, 0)
	if err == nil {
		d.temp = ""
	}
	return err
}

// takeBack undoes an exchange that displaced somebody else's file.
func (d *draft) takeBack(name string) error {
	err, _ := d.r.renameAt(d.dir, d.temp, d.dir, name, unix.RENAME_EXCHANGE)
	if err == unix.ENOENT {
		// The draft was removed from the name meanwhile.
		err, _ = d.r.renameAt(d.dir, d.temp, d.dir, name, unix.RENAME_NOREPLACE)
		if err == nil {
			d.temp = ""
			return errConflict()
		}
	}
	var ours, back unix.Stat_t
	if err == nil {
		err = unix.Fstat(d.fd, &ours)
	}
	if err == nil {
		err = statEntry(d.dir, d.temp, &back)
	}
	if err == nil && identityOf(&ours) == identityOf(&back) {
		return errConflict() // discard removes the draft
	}
	// A third file came in between. It is nobody's to delete.
	where, qerr := d.r.quarantine(d.dir, d.temp)
	if qerr != nil {
		where = d.temp
	}
	d.temp = ""
	return refuse(workspace.ErrConflict, "the file was changed by somebody else, twice; what was there is kept as %s", where)
}

func errConflict() error {
	return refuse(workspace.ErrConflict, "the file was changed by somebody else meanwhile; read it again and repeat the change")
}
