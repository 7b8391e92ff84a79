// Package workspacetest gives tests a workspace: a temporary directory, and a
// hardened container over it for commands. It goes with the test, however that
// ends: at its cleanup, and when the test process is killed too.
//
//	ws := workspacetest.New(t, workspacetest.Options{})
//	out, err := ws.Exec(t.Context(), workspace.Command{Shell: "make test"})
//
// With Options.Network it stands beside the containers of testcontainers-go, which
// it reaches by the names that they have on their network. It takes a Unix.
package workspacetest
