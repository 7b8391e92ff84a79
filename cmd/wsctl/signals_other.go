//go:build !unix

package main

import (
	"os"
	"syscall"
)

// stopSignals are the signals that ask wsctl to end.
func stopSignals() []os.Signal { return []os.Signal{os.Interrupt} }

// resizeSignal never comes on this system.
const resizeSignal = syscall.Signal(-1)

// signalText is empty: this system has no names for another one's signals.
func signalText(syscall.Signal) string { return "" }
