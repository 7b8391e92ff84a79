package container

import (
	"strings"

	"golang.org/x/sys/unix"
)

// local tells whether the engine runs on this very machine, under this kernel: a
// socket may be forwarded, and some engines live in a virtual machine. A wrong
// yes is found out by the identity check of each start.
func (e *Engine) local() bool {
	var u unix.Utsname
	if !strings.HasPrefix(e.info.Host, "unix://") || unix.Uname(&u) != nil {
		return false
	}
	return unix.ByteSliceToString(u.Release[:]) == e.info.Kernel
}
