package main

import (
	"path/filepath"
	"strings"
)

// environment is wsctl's own environment, read once by main: entries
// "NAME=value". Nothing else in this program reads it.
type environment []string

// lookup returns the last value of a name, as getenv(3) of most shells' env
// would have it.
func (e environment) lookup(name string) (value string, found bool) {
	for _, entry := range e {
		if n, v, ok := strings.Cut(entry, "="); ok && n == name {
			value, found = v, true
		}
	}
	return value, found
}

// get is lookup for a name whose empty value means the same as none.
func (e environment) get(name string) string {
	v, _ := e.lookup(name)
	return v
}

// cacheDir is the user's cache directory (XDG base directory specification),
// empty when there is no home either.
func (e environment) cacheDir() string {
	if dir := e.get("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "wsctl")
	}
	if home := e.get("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "wsctl")
	}
	return ""
}

// stateDir is the user's state directory (XDG base directory specification),
// empty when there is no home either.
func (e environment) stateDir() string {
	if dir := e.get("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "wsctl")
	}
	if home := e.get("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "wsctl")
	}
	return ""
}

// fancy reports whether the user wants more than plain lines on a terminal
// (no-color.org).
func (e environment) fancy() bool {
	return e.get("NO_COLOR") == "" && e.get("TERM") != "dumb"
}
