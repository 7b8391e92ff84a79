// Package keeper keeps processes: it starts commands, ends everything that they
// started, and proves it.
//
// It has two sides. The serving side is a small static program whose name is
// [Name]; a binary that calls [Init] first in main is that program too when it is
// started under that name. It has three modes:
//
//	wskeeper init [detached]   PID 1 of a container: reaps, holds the leash, reports, sweeps
//	wskeeper serve             runs one command after another and ends what each left
//	wskeeper job [SOCKET]      runs one command that outlives who asked for it
//
// The other side is [Client] for a serving keeper and [InitClient] for PID 1.
// They work on any system: the transport (the pipes of a local process, an
// attached docker exec) feeds them the bytes of each stream.
//
// # Serving
//
// A serving keeper is a child subreaper (PR_SET_CHILD_SUBREAPER, prctl(2)):
// whatever a command starts, by setsid, double fork or with an empty environment,
// becomes its child when its own parent dies. So "wait4 says there are no
// children" proves that nothing of the command is left. Commands inherit the
// keeper's own stdout and stderr; nothing is copied. Between the bytes of the
// command the keeper writes markers (package wrapper) with the token of that
// command:
//
//	late                 on stdout: the request is not fresh; it waits for a go
//	start                on stdout, before the command runs
//	pid N                on stdout, when the command is not over at once
//	fail SEAL chdir|exec N
//	                     on both streams: errno N, nothing was run
//	ack N                on stdout: N more bytes of stdin are consumed
//	exit SEAL k=v ...    on both streams, when everything is over
//
// The first thing on both streams is a greeting, a marker with a token that
// everybody knows: what comes before it is the engine's own text, what comes after
// it a command's.
//
// SEAL is a second secret of the command. The first token passes the command's
// own stdout while it runs, where it could be read back; the seal does not, so an
// end cannot be forged, nor that nothing was run.
//
// # Standard input of a serving keeper
//
// Frames: a type byte, the payload's length as a uvarint, the payload. A frame
// that is malformed or comes at the wrong time ends the keeper and all that it
// runs. End of file does the same: the owner is gone.
package keeper

// greeting is the token of the marker that a serving keeper begins with.
const greeting = "00000000000000000000000000000000"

// Name is the base name of argv[0] under which a binary that calls [Init] is a
// keeper.
const Name = "wskeeper"

// Protocol is the version of what the two sides say to each other. It changes with
// every change of a frame or a marker: who finds a keeper of another version in a
// container does not speak to it.
const Protocol = 2

// Modes of the keeper, its first argument.
const (
	// ModeInit is PID 1 of a container. It exits when its stdin ends.
	ModeInit = "init"
	// ModeServe runs commands.
	ModeServe = "serve"
	// ModeJob runs one job. Its argument is the path of the socket where it gets
	// its files; without one they come on descriptor 3.
	ModeJob = "job"
	// Detached, after ModeInit, means to stay when stdin ends.
	Detached = "detached"
)
