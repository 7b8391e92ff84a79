//go:build linux

package main

import (
	"io/fs"
	"syscall"
)

// ownerOf is the user that something belongs to.
func ownerOf(fi fs.FileInfo) (uid int, ok bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
