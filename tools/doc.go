// Package tools is what an agent does in a workspace: read, write and edit
// files, search, run commands and processes, keep and restore snapshots. A tool
// is a name, a description written for a model, a JSON schema of its arguments
// and of its structured result, truthful hints, and a call.
//
//	set, err := tools.NewSet(ws, tools.Options{})
//	defer set.Close()
//	result := set.Call(ctx, tools.Request{Name: "read_file", Args: []byte(`{"path":"go.mod"}`)})
//	fmt.Println(result.Text)
//
// It knows no transport: package mcpserver and the command line are two over
// it. Tools work on the workspace that the set is bound to, else on the one in
// the call's context (WithWorkspace); they never start or close one.
//
// Where to look: tool.go is what a tool is, catalog.go lists them, and each has
// a file of its name. set.go is the way of one call: arguments.go checks what
// the model wrote, policy.go and approval.go decide whether it may, long.go
// keeps what is too long for it, audit.go tells what happened.
package tools
