//go:build !linux

package container

// local is false: elsewhere the engine runs in a virtual machine.
func (e *Engine) local() bool { return false }
