// Package container is the driver whose commands run in one hardened Docker
// container over a directory of this machine.
//
// [Connect] finds the engine, [New] makes a [Driver] for a directory. Files are
// read and written on the host by host.Root and never through the engine. The
// first command starts the container: it is created, compared with what was
// asked for, started, and looked at from inside before anything of the caller's
// runs in it. Whatever is not as it must be is UNAVAILABLE, and the container is
// removed. docs/hardening.md tells the reason of each setting.
//
// PID 1 is the keeper (package keeper), whose standard input is attached to this
// process: when this process dies, the container ends and the engine removes it.
package container
