package host

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dirent is one entry as getdents64(2) gives it.
type dirent struct {
	ino  uint64
	typ  byte   // DT_*; DT_UNKNOWN where the file system does not tell
	name []byte // in the buffer, followed by a NUL there
}

const direntBuffer = 32 << 10

// readEntries calls each for every entry of the directory that fd has open
// but "." and "..", in the order of the file system. The name is good until
// each returns. An error of each ends it and is returned.
func readEntries(fd int, buf []byte, each func(dirent) error) error {
	const head = 19 // d_ino, d_off, d_reclen, d_type
	for {
		n, err := unix.Getdents(fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ENOENT:
			// The directory itself was removed.
			return nil
		case err != nil:
			return err
		case n <= 0:
			return nil
		}
		for b := buf[:n]; len(b) > head; {
			length := int(binary.NativeEndian.Uint16(b[16:]))
			if length <= head || length > len(b) {
				return unix.EIO
			}
			e := dirent{ino: binary.NativeEndian.Uint64(b), typ: b[18], name: b[head:length]}
			b = b[length:]
			for i, c := range e.name {
				if c == 0 {
					e.name = e.name[:i]
					break
				}
			}
			if s := string(e.name); s == "." || s == ".." {
				continue
			}
			if err := each(e); err != nil {
				return err
			}
		}
	}
}

// unlinkEntry is unlinkat(2) on a name that still lies in the buffer of
// getdents, without copying it.
func unlinkEntry(dir int, e dirent, flags int) error {
	for {
		_, _, no := unix.Syscall(unix.SYS_UNLINKAT, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(e.name))), uintptr(flags))
		switch no {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return no
		}
	}
}

// statEntry is fstatat(2) on such a name, without following it.
func statEntry(dir int, name string, st *unix.Stat_t) error {
	return ignoreIntr(func() error { return unix.Fstatat(dir, name, st, unix.AT_SYMLINK_NOFOLLOW) })
}

// openList opens the directory that the descriptor fd holds, for reading its
// entries.
func openList(fd int) (int, error) {
	return openAt(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
}
