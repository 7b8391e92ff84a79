//go:build !linux

package main

import "github.com/spf13/cobra"

// snapshotVerbs: snapshots need Linux.
func snapshotVerbs(*app) []*cobra.Command { return nil }
