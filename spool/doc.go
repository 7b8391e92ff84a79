// Package spool keeps what a job writes and how it ended, in a directory of the
// server's own, so that both outlive the server and whoever asked for the job.
//
// The job's keeper (package keeper) gets the files as open descriptors. They never
// have a name where commands run: no command can open, replace, link or shorten
// one, and none can write an end. What lies in the directory is read back with
// suspicion all the same: by held descriptors, links never followed, nothing
// opened that is not of the kind that was made, sizes bounded.
package spool
