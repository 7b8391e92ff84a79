//go:build linux

// Exchange lets two entries change places over and over (renameat2(2) with
// RENAME_EXCHANGE) until a file is there, and prints how often they did.
//
//	exchange A B STOP
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: exchange A B STOP")
		os.Exit(2)
	}
	done := 0
	for i := 0; ; i++ {
		if unix.Renameat2(unix.AT_FDCWD, os.Args[1], unix.AT_FDCWD, os.Args[2], unix.RENAME_EXCHANGE) == nil {
			done++
		}
		// Seldom, so that most of the time goes into the race.
		if i%64 == 0 && unix.Access(os.Args[3], unix.F_OK) == nil {
			fmt.Println("exchanged", done)
			return
		}
	}
}
