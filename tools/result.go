package tools

import (
	"encoding/json"

	"github.com/wsctl/wsctl/workspace"
)

// Result is what a call came to. Text and Structured say the same; a transport
// hands on both, or the one that its client reads.
type Result struct {
	// Text is the result for a model, valid UTF-8. Of a failure it begins
	// with the code.
	Text string
	// Structured is a JSON object as Tool.Output describes it; nil where
	// there is none: of most failures, and with Options.TextOnly.
	Structured json.RawMessage
	// Images are pictures that the model is to see.
	Images []Blob
	// IsError reports that the call failed.
	IsError bool
	// Code is why, and Err the failure itself; empty and nil: it did not
	// fail.
	Code workspace.Code
	Err  error
	// Path is where a result that was too long is saved whole, relative to
	// the root; empty: it was not.
	Path string
}

// Blob is bytes with their media type.
type Blob struct {
	MIME string
	Data []byte
}

// Progress is output of a command that still runs.
type Progress struct {
	// Stream is "stdout" or "stderr".
	Stream string
	// Text is what came, valid UTF-8.
	Text string
}
