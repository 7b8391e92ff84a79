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
func (e environment) cacheDir() string { return e.userDir("XDG_CACHE_HOME", ".cache") }

// stateDir is where wsctl keeps what outlives it (XDG base directory
// specification), empty when there is no home either.
func (e environment) stateDir() string { return e.userDir("XDG_STATE_HOME", ".local/state") }

// configDir is the user's directory of settings of wsctl.
func (e environment) configDir() string { return e.userDir("XDG_CONFIG_HOME", ".config") }

// userDir is wsctl's directory in the one that a variable names, or else in one
// below the home; empty when there is neither.
func (e environment) userDir(variable, below string) string {
	if dir := e.get(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "wsctl")
	}
	if home := e.get("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, below, "wsctl")
	}
	return ""
}

// serverSocket is where the socket of the user's own server is, whose directory is
// dir.
func (e environment) serverSocket(dir string) string {
	if runtime := e.get("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) {
		return filepath.Join(runtime, "wsctl.sock")
	}
	return filepath.Join(dir, "wsctl.sock")
}

// fancy reports whether the user wants more than plain lines on a terminal
// (no-color.org).
func (e environment) fancy() bool {
	return e.get("NO_COLOR") == "" && e.get("TERM") != "dumb"
}
