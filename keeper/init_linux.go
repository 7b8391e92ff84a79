package keeper

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Exit statuses of the keeper itself.
const (
	exitOK       = 0
	exitUsage    = 2
	exitProtocol = 3 // the owner sent what it must not
	exitKernel   = 4 // a system call that must work did not
	exitSpoiled  = 5 // commands have changed the keeper; nothing more is run
)

// Init makes this process a keeper and never returns, when it was started under
// the name [Name]. Otherwise it returns at once. Call it first in main, before
// anything is read, started or opened.
func Init() {
	if len(os.Args) < 1 || filepath.Base(os.Args[0]) != Name {
		return
	}
	// Few threads: they count against the container's process limit.
	runtime.GOMAXPROCS(2)
	args := os.Args[1:]
	switch {
	case len(args) == 1 && args[0] == ModeServe:
		os.Exit(serve())
	case len(args) > 0 && args[0] == ModeJob:
		os.Exit(jobMode(args[1:]))
	case len(args) == 1 && args[0] == ModeInit:
		os.Exit(runInit(false))
	case len(args) == 2 && args[0] == ModeInit && args[1] == Detached:
		os.Exit(runInit(true))
	}
	_, _ = syscall.Write(2, []byte("usage: wskeeper init [detached] | wskeeper serve | wskeeper job [SOCKET]\n"))
	os.Exit(exitUsage)
}
