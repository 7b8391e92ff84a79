// Package drivertest is the conformance suite of package workspace: what
// everybody may expect of a driver, as cases. Every driver passes it, and every
// wrapper of a driver.
//
//	func TestConformance(t *testing.T) {
//		drivertest.Run(t, drivertest.Harness{
//			New: func(t testing.TB, o workspace.Options) (*workspace.Workspace, string) {
//				dir := t.TempDir()
//				d, err := mydriver.New(dir)
//				if err != nil {
//					t.Fatal(err)
//				}
//				ws, err := workspace.New(d, o)
//				if err != nil {
//					t.Fatal(err)
//				}
//				return ws, dir
//			},
//			Capabilities: drivertest.Capabilities{Start: true},
//		})
//	}
//
// A chapter of cases is a file: lifecycle, files, paths, exec, streams,
// background, processes, shell, errors, hostile. A case names the rule it defends and
// shows it when it fails, and has a time limit of its own.
//
// What a driver cannot do it says in Capabilities. No case is skipped for it:
// in place of the case the suite checks that the driver cannot, and that it
// says so as the contract asks.
//
// Commands are POSIX sh and what POSIX calls utilities, and setsid where
// escaping is the point. The suite needs a Unix.
package drivertest
