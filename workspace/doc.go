// Package workspace is the contract of wsctl: a directory whose files are
// read and written through a guard that no path leaves, and whose commands
// run in one place, whichever that place is.
//
// Two kinds of people read it. Those who use a workspace call the methods of
// *Workspace, which owns the spelling of paths, validation, timeouts, the
// bounds on output, the wrapping of errors and Close. Those who build one
// implement Driver (driver.go), which is small because all of that is written
// once, here; package drivertest holds them to it.
//
//	d, err := host.New("./project", host.Options{Env: env})
//	ws, err := workspace.New(d, workspace.Options{Timeout: 2 * time.Minute})
//	defer ws.Close()
//
//	out, err := ws.Exec(ctx, workspace.Command{Args: []string{"go", "test", "./..."}})
//
// Opening is cheap: the first command starts the driver, once, however many
// callers there are, and files work without it. Whoever opens a workspace
// closes it.
//
// The package imports the standard library alone.
package workspace
