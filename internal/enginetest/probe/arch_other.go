//go:build linux && !amd64

package main

// archAttempts are the calls that only amd64 has, said to be absent.
func archAttempts() map[string]func() string {
	absent := func() string { return "absent" }
	return map[string]func() string{
		"suid-chmod": absent, "suid-open": absent, "suid-creat": absent, "suid-mknod": absent,
		"int80-socket-alg": absent, "int80-getpid": absent,
	}
}
