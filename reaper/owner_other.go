//go:build !linux

package reaper

import (
	"os"

	"github.com/wsctl/wsctl/workspace"
)

// Self returns what identifies this process. Off Linux it is the host name and
// the PID alone, which prove nothing about a process that is gone: containers
// made here end with their leash or are removed by name, and of those that are
// left List says so.
func Self() (Owner, error) {
	host, err := os.Hostname()
	if err != nil {
		return Owner{}, workspace.Errorf(workspace.ErrIO, "owner", "", "no host name: %w", err)
	}
	return Owner{Host: host, PID: os.Getpid()}, nil
}

func process(int) Presence { return Presence{Exists: true} }
