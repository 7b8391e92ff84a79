//go:build linux

package host

// What the tests of this package see of its inside.

// TestHooks are hooks as a test writes them down.
type TestHooks struct {
	Openat2            error
	Off                string // the guard that is switched off
	Step               func(name string)
	NoTmpfile, NoFlags bool
}

// OpenRootWith is OpenRoot with hooks.
func OpenRootWith(dir string, o RootOptions, t TestHooks) (*Root, error) {
	return openRoot(dir, o, &hooks{
		openat2: t.Openat2, off: map[guard]bool{guard(t.Off): true}, step: t.Step,
		noTmpfile: t.NoTmpfile, noFlags: t.NoFlags,
	})
}

// HeldLocks is how many files and entries are locked or waited for.
func (r *Root) HeldLocks() int {
	r.locks.mu.Lock()
	defer r.locks.mu.Unlock()
	return len(r.locks.held)
}

var (
	TempName       = tempName
	IsTemp         = isTemp[string]
	Reserved       = reserved
	NewPendingName = pendingName
	ViewAfter      = viewAfter
	UnescapeMount  = unescapeMount
)
