//go:build !linux

package main

// defaultSignals is for a fault of Linux's C library.
func defaultSignals() {}
