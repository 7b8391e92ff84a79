// Package enginetest is test support for code that talks to a Docker engine.
//
// It answers three questions for a test: is there an engine ([Client]), what
// image can it run when none can be pulled ([BusyBox], [HostShells],
// [NoShell], [Import]), and what programs of ours go into a container
// ([Keeper], [Probe]). Images are made in memory from files of this machine and
// kept in the engine under a tag that is the hash of their content, so test
// processes that run at the same time share them and a changed file means a
// new tag. `make clean` removes them.
//
// Environment, all optional:
//
//	WSCTL_REQUIRE_DOCKER=1  what a test needs and does not find fails it; otherwise it is skipped with the reason
//	WSCTL_SOAK=1            [Soak] holds, and [Rounds] gives full counts
//	WSCTL_TEST_KEEPER       a built wskeeper, for users that cannot build one
//	WSCTL_TEST_PROBE        a built probe, likewise
//	DOCKER_HOST and the like, as the docker CLI reads them
//
// All functions may be called from parallel tests.
package enginetest
