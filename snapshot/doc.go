// Package snapshot keeps states of a workspace's tree: an undo for what
// commands and tools do.
//
// A Store is a directory in which every file content and every directory
// listing lies once, under its SHA-256. New makes of a store and a host.Root
// the Snapshots of a workspace, which is what workspace.Options.Snapshots
// takes: Save reads what changed since the last time, Restore plans what brings
// a state back and does it through the root's guard.
//
// A store looks like this; all of it is private to its owner:
//
//	store.json       what this is, its version, and the root it belongs to
//	lock             held (flock(2)) shared by who reads or adds, exclusively
//	                 by who deletes
//	packs/ID         objects, and a table of them at the end
//	snapshots/ID     one snapshot: what is told of it, and its root's listing
//	index            what the files looked like that were last read; a cache
//
// The package needs Linux.
package snapshot
