// Package remote serves workspaces over HTTP and dials them.
//
// Handler serves one workspace; New serves any number, found by id. Dial gives
// a workspace.Driver over a served one, so that whoever has a
// *workspace.Workspace does not see where it is:
//
//	d, err := remote.Dial(ctx, "https://build.example:7777/v1/workspaces/a1", token, remote.DialOptions{})
//	ws, err := workspace.New(d, workspace.Options{})
//
// The two sides of one thing stand in files of one stem: serve_exec.go and
// dial_exec.go, serve_files.go and dial_files.go; what both share is in
// message.go, frame.go and flow.go. Who may do what is in token.go and
// authority.go, and every route names the scope that it needs (routes.go).
//
// Neither side believes the other. The server bounds and checks all that it is
// sent; so does the client, whose names, sizes and statuses come from a machine
// that may be lying, and which waits for nothing without a bound.
//
// The protocol is described in docs/protocol.md and openapi.json.
package remote
