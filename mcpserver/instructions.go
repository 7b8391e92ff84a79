package mcpserver

import (
	_ "embed"
	"strings"

	"github.com/wsctl/wsctl/tools"
)

// guide is paragraphs; one that begins with a line "@ TOOL…" is for sets that
// have all of these tools.
//
//go:embed instructions.md
var guide string

// Instructions is a short guide for a model to the tools in set. It is sent to
// every client.
func Instructions(set *tools.Set) string {
	var kept []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(guide), "\n\n") {
		if needs, rest, ok := strings.Cut(paragraph, "\n"); ok && strings.HasPrefix(needs, "@ ") {
			if !hasAll(set, strings.Fields(needs)[1:]) {
				continue
			}
			paragraph = rest
		}
		kept = append(kept, paragraph)
	}
	return strings.Join(kept, "\n\n") + "\n"
}

func hasAll(set *tools.Set, names []string) bool {
	for _, name := range names {
		if set.Tool(name) == nil {
			return false
		}
	}
	return true
}
