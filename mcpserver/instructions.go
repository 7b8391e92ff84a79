package mcpserver

import (
	"github.com/wsctl/wsctl/tools"
)

// Instructions is a short guide for a model to the tools in set.
func Instructions(set *tools.Set) string {
	return ""
}
