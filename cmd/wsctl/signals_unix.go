//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// stopSignals are the signals that ask wsctl to end.
func stopSignals() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP}
}

// resizeSignal is sent when the terminal's size has changed.
const resizeSignal = syscall.SIGWINCH

// signalText is the name of a signal, empty when it has none.
func signalText(sig syscall.Signal) string { return unix.SignalName(sig) }
