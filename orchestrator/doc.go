// Package orchestrator looks after many workspaces in one process, for many
// clients: it makes, finds, pauses, stops and removes them, shares what the
// machine has among them, ends what nobody uses, and writes down who did what.
//
// What it knows is in a small database beside the engine's own labels. The
// process can be killed at any moment: the next one takes over what runs,
// finishes what was half done, and removes what belongs to nobody. A workspace
// that a caller was told of is there; one that failed is not.
//
// The files: workspace.go and store.go say what a workspace is and where that is
// kept; create.go, remove.go and change.go what is done with one; upload.go, roots.go,
// unpack_linux.go and bundle.go what it begins with; open.go who uses it; budget.go,
// expire.go and pool.go how the machine is shared; audit.go, events.go and metrics.go
// what is told; the files job*.go are jobs; routes.go and client.go the two sides of
// the wire.
package orchestrator
