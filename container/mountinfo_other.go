//go:build unix && !linux

package container

// mountsBelow knows nothing here: what the engine's virtual machine has mounted
// cannot be seen.
func mountsBelow(string) ([]string, error) { return nil, nil }
