//go:build unix && !linux

package container

// tryOpenat2 is false: only Linux has the call.
func tryOpenat2() (works bool, detail string) { return false, "this system does not have it" }
