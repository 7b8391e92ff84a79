package keeper

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// veof is the character that ends a terminal's input (VEOF, termios(3)).
const veof = 0x04

// terminal is our side of a command's terminal.
type terminal struct {
	master *os.File
	fd     int // of master: its Fd method would make it blocking
	copied chan struct{}
}

// openTerminal makes a terminal and returns the command's side as a descriptor.
// That is got from ours (TIOCGPTPEER, ioctl_tty(2)): no path below /dev/pts is
// believed.
func openTerminal(size Size) (*terminal, int, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, -1, err
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		_ = unix.Close(fd)
		return nil, -1, err
	}
	slave, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		_ = unix.Close(fd)
		return nil, -1, errno
	}
	t := &terminal{master: os.NewFile(uintptr(fd), "terminal"), fd: fd, copied: make(chan struct{})}
	t.resize(size)
	return t, int(slave), nil
}

func (t *terminal) resize(s Size) {
	_ = unix.IoctlSetWinsize(t.fd, unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Cols})
}

// copyOut passes what the command writes on to a descriptor, until nobody has the
// terminal open any more (EIO) or drain's deadline.
func (t *terminal) copyOut(fd int) {
	go func() {
		defer close(t.copied)
		buf := make([]byte, 32<<10)
		for {
			n, err := t.master.Read(buf)
			if n > 0 && writeAll(fd, buf[:n]) != nil {
				return
			}
			if err != nil {
				return
			}
		}
	}()
}

// drain returns when the output is passed on, and closes the terminal.
func (t *terminal) drain(deadline time.Time) {
	_ = t.master.SetReadDeadline(deadline)
	<-t.copied
	_ = t.master.Close()
}
