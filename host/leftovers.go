//go:build unix

package host

// Leftovers is what an earlier crash left and the opening of the root dealt
// with.
type Leftovers struct {
	// Removed are temporary files of writes that never ended, by their
	// paths below the root: named as ours are, regular, with one name, and
	// older than LeftoverAge.
	Removed []string
	// Finished are directories whose deletion had begun and is now done.
	Finished []string
	// Recovered are entries that were on their way when the process died.
	// They are kept, under these paths in the state, until somebody decides.
	Recovered []string
	// Quarantined are entries that a race put aside, now or earlier.
	Quarantined []string
}
