package tools

import (
	"context"
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wsctl/wsctl/workspace"
)

// Tool is one thing that a model can do in a workspace. It is immutable.
type Tool struct {
	// Name is what the model calls, Title what a person reads.
	Name, Title string
	// Description tells a model what the tool does and how to use it.
	Description string
	// Hints say what a call may do.
	Hints Hints
	// Input is the schema of the arguments, Output that of
	// Result.Structured. They are shared; do not change them.
	Input, Output *jsonschema.Schema
	// MaxResultLength is the tool's own bound on a result, in characters;
	// 0: that of the set.
	MaxResultLength int

	prepare func(args json.RawMessage) (prepared, error)
}

// Hints say what any call of a tool may do, whatever its arguments. They are
// the annotations of the Model Context Protocol.
type Hints struct {
	// ReadOnly: it changes nothing.
	ReadOnly bool
	// Destructive: it may lose what was there.
	Destructive bool
	// Idempotent: the same call again changes nothing more.
	Idempotent bool
	// OpenWorld: it may reach beyond the workspace.
	OpenWorld bool
}

// prepared is a call whose arguments are good.
type prepared struct {
	subject subject
	run     func(ctx context.Context, c *call) (output, error)
}

// call is what a running tool sees of its call.
type call struct {
	ws       *workspace.Workspace
	set      *Set
	run, id  string
	tool     *Tool
	progress func(Progress)
	// saved is where the tool itself has saved the whole of its result;
	// empty: it has not.
	saved string
}

// output is what a tool returns: its fields are the structured result.
type output interface {
	// text is the result in the form for a model. It is made valid UTF-8
	// and bounded by the set.
	text() string
}

// pictured is an output with images beside its text.
type pictured interface{ images() []Blob }

// subject is what the patterns of a policy are compared with.
type subject struct {
	// paths are the files that the call reads or changes.
	paths []string
	// trees are directories below which it may reach any file.
	trees []string
	// command is the shell text that it runs, and obscure why more than the
	// text says what that does; empty: it is all.
	command, obscure string
}

// subjected is an input that a policy's patterns are about.
type subjected interface{ subject() subject }

// define makes a Tool of t's words and a function. In and Out are structs whose
// fields, with the tags of schemaOf, are the schemas.
func define[In, Out any, P interface {
	*Out
	output
}](t Tool, run func(ctx context.Context, c *call, in In) (P, error),
) *Tool {
	t.Input, t.Output = inputSchema[In](), outputSchema[Out]()
	t.prepare = func(args json.RawMessage) (prepared, error) {
		var in In
		if err := decode(t.Name, t.Input, args, &in); err != nil {
			return prepared{}, err
		}
		var p prepared
		if s, ok := any(in).(subjected); ok {
			p.subject = s.subject()
		}
		p.run = func(ctx context.Context, c *call) (output, error) {
			out, err := run(ctx, c, in)
			if out == nil {
				return nil, err
			}
			return out, err
		}
		return p, nil
	}
	return &t
}
