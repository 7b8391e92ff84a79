//go:build unix

package remote_test

import (
	"testing"

	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// BenchmarkRead is a small read over the wire, with a token.
func BenchmarkRead(b *testing.B) {
	served := hostOnly(b)
	if _, err := served.WriteFile(b.Context(), "file", make([]byte, 4096), workspace.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
	a := authority(b)
	ws, err := workspace.New(dial(b, serve(b, served, remote.Options{Authority: a}), issue(b, a, remote.DefaultID, remote.Read)), workspace.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = ws.Close() })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ws.ReadFile(b.Context(), "file", 0); err != nil {
			b.Fatal(err)
		}
	}
}
