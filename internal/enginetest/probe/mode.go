//go:build linux

package main

import (
	"path/filepath"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// modeAttempts are the ways to make a file that runs as its owner (S_ISUID), and
// two to make one that runs as its group.
func modeAttempts() map[string]func() string {
	const suid = unix.S_ISUID | 0o755
	create := func(open func(path string) (int, error)) func() string {
		return inScratch(unix.S_ISUID, func(dir, _ string) (string, error) {
			made := filepath.Join(dir, "made")
			fd, err := open(made)
			if err == nil {
				unix.Close(fd)
			}
			return made, err
		})
	}
	return map[string]func() string{
		"suid-fchmod": inScratch(unix.S_ISUID, func(_, file string) (string, error) {
			fd, err := unix.Open(file, unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				return "", err
			}
			return file, unix.Fchmod(fd, suid)
		}),
		"suid-fchmodat": inScratch(unix.S_ISUID, func(_, file string) (string, error) {
			return file, unix.Fchmodat(unix.AT_FDCWD, file, suid, 0)
		}),
		"suid-fchmodat2": inScratch(unix.S_ISUID, func(_, file string) (string, error) {
			return file, fchmodat2(file, suid)
		}),
		"suid-openat": create(func(p string) (int, error) {
			return unix.Openat(unix.AT_FDCWD, p, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, suid)
		}),
		"suid-openat2": create(func(p string) (int, error) {
			return unix.Openat2(unix.AT_FDCWD, p, &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY | unix.O_CLOEXEC, Mode: suid})
		}),
		"suid-mknodat": inScratch(unix.S_ISUID, func(dir, _ string) (string, error) {
			made := filepath.Join(dir, "made")
			return made, unix.Mknodat(unix.AT_FDCWD, made, unix.S_IFREG|suid, 0)
		}),
		"suid-tmpfile": inScratch(unix.S_ISUID, func(dir, _ string) (string, error) {
			fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, suid)
			if err != nil {
				return "", err
			}
			made := filepath.Join(dir, "made")
			return made, unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, made, unix.AT_SYMLINK_FOLLOW)
		}),
		"sgid-fchmodat-file": inScratch(unix.S_ISGID, func(_, file string) (string, error) {
			return file, unix.Fchmodat(unix.AT_FDCWD, file, unix.S_ISGID|0o755, 0)
		}),
		"sgid-fchmodat-dir": inScratch(unix.S_ISGID, func(dir, _ string) (string, error) {
			return dir, unix.Fchmodat(unix.AT_FDCWD, dir, unix.S_ISGID|0o755, 0)
		}),
	}
}

// fchmodat2 is the system call of Linux 6.6, for which there is no wrapper that
// always makes it.
func fchmodat2(path string, mode uint32) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	dir := unix.AT_FDCWD
	_, _, errno := unix.Syscall6(unix.SYS_FCHMODAT2, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(mode), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
