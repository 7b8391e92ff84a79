package host

// guard names one protection that a test can switch off, to see that the
// attack it is there for then succeeds.
type guard string

const (
	guardBeneath  guard = "beneath"   // links and ".." are kept inside
	guardRegular  guard = "regular"   // only regular files are opened
	guardState    guard = "state"     // .wsctl is closed
	guardMounts   guard = "mounts"    // NoMounts is obeyed
	guardVerify   guard = "verify"    // what was moved is what was meant
	guardConflict guard = "conflict"  // a foreign change is not overwritten
	guardReadOnly guard = "read-only" // a read-only file needs Force
	guardSpecial  guard = "special"   // special mode bits are never created
	guardLinks    guard = "links"     // the policy for hard links
	guardLocks    guard = "locks"     // writes of one file wait for each other
	guardTemp     guard = "temp"      // only our own temporaries are swept
	guardView     guard = "view"      // the view tells of what is below the root alone
	guardDangling guard = "dangling"  // nothing is made through a dangling link
)

// hooks are how tests of this package see and disturb what a Root does. A
// Root in use has none.
type hooks struct {
	// openat2 is the error that the system call answers instead of working.
	openat2 error
	// off holds the protections that are switched off.
	off map[guard]bool
	// step is called before each step that a crash could follow.
	step func(name string)
	// noTmpfile and noFlags make O_TMPFILE and the flags of renameat2
	// unsupported, as some file systems do.
	noTmpfile, noFlags bool
}

// on reports whether the protection is in force.
func (h *hooks) on(g guard) bool { return h == nil || !h.off[g] }

// at tells that the step name comes next.
func (h *hooks) at(name string) {
	if h != nil && h.step != nil {
		h.step(name)
	}
}
