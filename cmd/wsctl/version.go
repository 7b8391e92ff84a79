package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version is set by the linker (-X main.version); empty: what the Go tool has
// recorded.
var version string

// build is what `wsctl version --json` prints.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Time    string `json:"time,omitempty"`
	// Modified reports changes since that commit; a version that the linker
	// sets tells of them by its end.
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// thisBuild tells what this binary is.
func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if b.Version == "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.time":
				b.Time = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	b.Modified = b.Modified || strings.HasSuffix(b.Version, "-dirty")
	if b.Version == "" {
		b.Version = "unknown"
	}
	return b
}

// String is one line.
func (b build) String() string {
	return fmt.Sprintf("wsctl %s (%s, %s/%s)", b.Version, b.Go, b.OS, b.Arch)
}

func newVersionCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version [--json]",
		Short:   "Print what this binary is",
		Long:    "Print the version of wsctl, the Go that made it and the system it is for.",
		Example: "  wsctl version\n  wsctl version --json | jq -r .version",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if asJSON {
				return a.ui.object(b)
			}
			return a.ui.result(fmt.Appendln(nil, b))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
