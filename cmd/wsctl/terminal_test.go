//go:build unix

package main

import (
	"os"
	"reflect"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/term"
)

func TestTerminalIsRestoredBeforeAPanicEndsTheProgram(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	term1 := &terminal{ui: newUI(tty, os.Stdout, os.Stderr, false)}
	if err := term1.makeRaw(); err != nil {
		t.Fatal(err)
	}
	if raw, _ := term.GetState(int(tty.Fd())); reflect.DeepEqual(raw, before) {
		t.Fatal("the terminal is not raw, so restoring it shows nothing")
	}
	var caught any
	func() {
		defer func() { caught = recover() }()
		defer term1.guard()
		panic("boom")
	}()
	if caught != "boom" {
		t.Errorf("the panic became %v", caught)
	}
	if after, _ := term.GetState(int(tty.Fd())); !reflect.DeepEqual(after, before) {
		t.Error("the terminal is still raw")
	}
}
