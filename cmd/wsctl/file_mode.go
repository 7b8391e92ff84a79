//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/spf13/pflag"
)

// permissions are the permission bits of a file in octal digits, as chmod(1)
// takes them.
type permissions struct {
	value fs.FileMode
	set   bool
}

var _ pflag.Value = (*permissions)(nil)

func (p *permissions) String() string {
	if !p.set {
		return ""
	}
	return octal(p.value)
}

// Type names the value in help texts.
func (p *permissions) Type() string { return "MODE" }

func (p *permissions) Set(s string) error {
	bits, err := strconv.ParseUint(s, 8, 32)
	switch {
	case err != nil || len(s) < 3 || len(s) > 4 || bits > 0o7777:
		return errors.New("not a mode; write octal digits such as 644 or 0755")
	case bits > 0o777:
		return errors.New("it has more than permission bits; set-user-ID, set-group-ID and sticky are never set")
	}
	p.value, p.set = fs.FileMode(bits), true
	return nil
}

// octal is a mode with its special bits as chmod(1) takes it, four digits.
func octal(mode fs.FileMode) string {
	bits := uint32(mode.Perm())
	for bit, value := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&bit != 0 {
			bits |= value
		}
	}
	return fmt.Sprintf("%04o", bits)
}

// letters is a mode as ls(1) shows it.
func letters(mode fs.FileMode) string {
	first := map[fs.FileMode]string{
		fs.ModeDir: "d", fs.ModeSymlink: "l", fs.ModeNamedPipe: "p", fs.ModeSocket: "s",
		fs.ModeDevice: "b", fs.ModeDevice | fs.ModeCharDevice: "c",
	}[mode.Type()]
	if first == "" {
		first = "-"
	}
	text := []byte(first + mode.Perm().String()[1:])
	for _, special := range []struct {
		bit   fs.FileMode
		at    int
		lower byte
	}{{fs.ModeSetuid, 3, 's'}, {fs.ModeSetgid, 6, 's'}, {fs.ModeSticky, 9, 't'}} {
		if mode&special.bit == 0 {
			continue
		}
		if text[special.at] == 'x' {
			text[special.at] = special.lower
		} else {
			text[special.at] = special.lower - 'a' + 'A'
		}
	}
	return string(text)
}

// kind is what a file is, in one word.
func kind(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "link"
	case fs.ModeNamedPipe:
		return "fifo"
	case fs.ModeSocket:
		return "socket"
	}
	return "device"
}
