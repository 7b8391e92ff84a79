package mcpserver

import (
	"context"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// endWait is how long calls that were ended may take to be gone: a command's
// grace of two seconds and one more, and the rest for a busy machine.
const endWait = 6 * time.Second

// ServeStdio serves one client: messages are lines of in and of out, and nothing
// else is written to out. It returns nil at the end of in and when ctx ends.
// Calls that are still under way then get a moment to be answered (drainTime;
// none when ctx ended), and are ended.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := newLines(in, out)
	defer lines.Close()
	session, err := s.mcp.Connect(context.WithoutCancel(ctx), carrier{lines}, nil)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- session.Wait() }()
	select {
	case err = <-done:
		return err
	case <-ctx.Done():
	}
	s.end()
	lines.finish()
	select {
	case <-done:
	case <-time.After(endWait):
		// A client that does not read holds a write; it ends with the
		// process.
	}
	return nil
}

// carrier hands a connection to the SDK.
type carrier struct{ conn mcp.Connection }

// Connect implements mcp.Transport.
func (c carrier) Connect(context.Context) (mcp.Connection, error) { return c.conn, nil }
