//go:build unix

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wsctl/wsctl/internal/enginetest"
)

// An agent repairs a Go module by MCP alone, with the server in a process of its
// own, over either way in.
func TestAgentRepairsAModule(t *testing.T) {
	t.Parallel()
	enginetest.Client(t)
	for _, way := range []string{"stdio", "http"} {
		t.Run(way, func(t *testing.T) {
			root := goProject(t)
			for name, text := range map[string]string{
				"go.mod":      "module example.org/sum\n\ngo 1.20\n",
				"sum.go":      "package sum\n\n// Sum adds.\nfunc Sum(a, b int) int { return a - b }\n",
				"sum_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif got := Sum(2, 3); got != 5 {\n\t\tt.Fatalf(\"Sum(2, 3) = %d\", got)\n\t}\n}\n",
			} {
				if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			s, stop := agent(t, way, root)
			call := func(name string, args map[string]any) map[string]any {
				t.Helper()
				r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
				if err != nil {
					t.Fatal(err)
				}
				out, _ := r.StructuredContent.(map[string]any)
				if r.IsError || out == nil {
					t.Fatalf("%s: %+v", name, r.Content[0])
				}
				return out
			}
			test := func() map[string]any {
				t.Helper()
				return call("run_command", map[string]any{"command": "go test ./...", "timeout": 400})
			}
			out := test()
			if stdout, _ := out["stdout"].(string); out["exit_code"] != 1.0 || !strings.Contains(stdout, "Sum(2, 3) = -1") {
				t.Fatalf("the test does not fail as it should: %v", out)
			}
			state := call("snapshot_checkpoint", map[string]any{"label": "before"})
			found := call("grep", map[string]any{"pattern": `return a`})
			if text := fmt.Sprint(found); !strings.Contains(text, "sum.go") {
				t.Errorf("grep found %v", found)
			}
			call("edit_file", map[string]any{"path": "sum.go", "old_string": "a - b", "new_string": "a + b"})
			if out := test(); out["exit_code"] != 0.0 {
				t.Fatalf("the test still fails: %v", out)
			}
			if text, err := os.ReadFile(filepath.Join(root, "sum.go")); err != nil || !strings.Contains(string(text), "return a + b") {
				t.Errorf("on the host there is %q, %v", text, err)
			}
			// The rewind undoes what tools and commands did since.
			call("run_command", map[string]any{"command": "echo junk >junk.txt; rm go.mod"})
			call("snapshot_restore", map[string]any{"id": state["id"]})
			text, err := os.ReadFile(filepath.Join(root, "sum.go"))
			if err != nil || !strings.Contains(string(text), "return a - b") {
				t.Errorf("after the rewind there is %q, %v", text, err)
			}
			for name, there := range map[string]bool{"go.mod": true, "junk.txt": false} {
				if _, err := os.Stat(filepath.Join(root, name)); (err == nil) != there {
					t.Errorf("after the rewind: %s: %v", name, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			stop()
			nothingLeft(t, root, 5*time.Second)
		})
	}
}

// agent begins a session the SDK's client with a server of its own, which
// stop ends where the session does not.
func agent(t *testing.T, way, root string) (s *mcp.ClientSession, stop func()) {
	t.Helper()
	var transport mcp.Transport
	stop = func() {}
	if way == "stdio" {
		transport = &mcp.CommandTransport{Command: command(t, "mcp", "--root", root)}
	} else {
		transport, stop = overHTTP(t, root)
	}
	var err error
	s, err = mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, stop
}

// overHTTP begins a server with a token, and returns a way to it and its end.
func overHTTP(t *testing.T, root string) (way mcp.Transport, stop func()) {
	t.Helper()
	const token = "0123456789abcdef0123456789abcdef"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "mcp", "--root", root, "--http", "127.0.0.1:0", "--token-file", file)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	all := make(chan string, 1)
	go func() {
		var log strings.Builder
		serving := regexp.MustCompile(`serving (http://\S+)`)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			log.WriteString(lines.Text() + "\n")
			if m := serving.FindStringSubmatch(lines.Text()); m != nil {
				said <- m[1]
			}
		}
		all <- log.String()
	}()
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		log := <-all
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v: %s", err, log)
		}
		if strings.Contains(log, token) {
			t.Errorf("the token is in the log: %s", log)
		}
	}
	select {
	case url := <-said:
		return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)}}, stop
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not say where it is")
		return nil, nil
	}
}

// bearer sends a token with every request.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// rawServer is a server whose messages are read and written as lines.
type rawServer struct {
	*testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	next  int
}

func newRawServer(t *testing.T, args ...string) *rawServer {
	t.Helper()
	cmd := command(t, append([]string{"mcp"}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &rawServer{T: t, cmd: cmd, in: in, lines: bufio.NewScanner(out), next: 1}
	s.lines.Buffer(nil, 32<<20)
	s.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	return s
}

// send sends a request and returns its id.
func (s *rawServer) send(method, params string) int {
	s.Helper()
	s.next++
	if _, err := fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", s.next, method, params); err != nil {
		s.Fatal(err)
	}
	return s.next
}

// request sends a request and returns the result.
func (s *rawServer) request(method, params string) string {
	s.Helper()
	id := s.send(method, params)
	for s.lines.Scan() {
		var m struct {
			JSONRPC string
			ID      int
			Result  json.RawMessage
			Error   json.RawMessage
		}
		if err := json.Unmarshal(s.lines.Bytes(), &m); err != nil || m.JSONRPC != "2.0" {
			s.Fatalf("standard output has %q", s.lines.Text())
		}
		if m.ID == id {
			return string(m.Result) + string(m.Error)
		}
	}
	s.Fatalf("%s: no answer", method)
	return ""
}

func (s *rawServer) run(line string) string {
	s.Helper()
	args, err := json.Marshal(map[string]any{"name": "run_command", "arguments": map[string]any{"command": line}})
	if err != nil {
		s.Fatal(err)
	}
	return s.request("tools/call", string(args))
}

// ends waits for the process and returns how it ended.
func (s *rawServer) ends(within time.Duration) error {
	s.Helper()
	for s.lines.Scan() {
		if !json.Valid(s.lines.Bytes()) {
			s.Errorf("standard output has %q", s.lines.Text())
		}
	}
	done := make(chan error, 1)
	go func() { done <- s.cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(within):
		s.Fatalf("it runs after %v", within)
		return nil
	}
}

// sleeps has a command run, and returns when it does.
func (s *rawServer) sleeps(root string) {
	s.Helper()
	s.send("tools/call", `{"name":"run_command","arguments":{"command":"trap : TERM; touch started; while :; do sleep 1; done"}}`)
	eventually(s.T, 60*time.Second, func() string {
		if _, err := os.Stat(filepath.Join(root, "started")); err != nil {
			return "the command does not start"
		}
		return ""
	})
}

// The server does not outlive its client, and no container outlives the server.
func TestServerEndsWithItsClient(t *testing.T) {
	t.Parallel()
	enginetest.Client(t)
	for name, end := range map[string]struct {
		how    func(*rawServer) error
		killed bool
	}{
		"end of input": {how: func(s *rawServer) error { return s.in.Close() }},
		"SIGTERM":      {how: func(s *rawServer) error { return s.cmd.Process.Signal(syscall.SIGTERM) }},
		"SIGINT":       {how: func(s *rawServer) error { return s.cmd.Process.Signal(os.Interrupt) }},
		"SIGKILL":      {how: func(s *rawServer) error { return s.cmd.Process.Kill() }, killed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := project(t)
			s := newRawServer(t, "--root", root)
			s.sleeps(root)
			if err := end.how(s); err != nil {
				t.Fatal(err)
			}
			if err := s.ends(15 * time.Second); (err != nil) != end.killed {
				t.Errorf("it ended with %v", err)
			}
			nothingLeft(t, root, 5*time.Second)
		})
	}
}

// Files are served while there is no engine, and what cannot be had is told in a
// result with its code.
func TestServerGoesOnWithoutItsContainer(t *testing.T) {
	t.Parallel()
	engine := enginetest.Client(t)
	root := project(t)
	s := newRawServer(t, "--root", root)
	if got := s.run("echo one >a.txt; cat a.txt"); !strings.Contains(got, `"exit_code":0`) {
		t.Fatalf("got %s", got)
	}
	for _, c := range enginetest.Below(t, root) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := engine.ContainerKill(ctx, c.ID, "KILL"); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.request("tools/call", `{"name":"read_file","arguments":{"path":"a.txt"}}`); !strings.Contains(got, "one") {
		t.Errorf("got %s", got)
	}
	got := s.run("cat a.txt")
	if !strings.Contains(got, "one") || !strings.Contains(got, "recreated") {
		t.Errorf("the next command: got %s", got)
	}
	_ = s.in.Close()
	if err := s.ends(15 * time.Second); err != nil {
		t.Error(err)
	}
	nothingLeft(t, root, 5*time.Second)
}

// What commands need is missing, and the files are served all the same.
func TestServerServesFilesWithoutAnImage(t *testing.T) {
	t.Parallel()
	enginetest.Client(t)
	root := project(t)
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte("one line\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := newRawServer(t, "--root", root, "--image", "wsctl-test:not-there", "--pull", "never")
	for range 2 {
		if got := s.run("true"); !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "not-there") {
			t.Errorf("got %s", got)
		}
		if got := s.request("tools/call", `{"name":"read_file","arguments":{"path":"a.txt"}}`); !strings.Contains(got, "one line") {
			t.Errorf("got %s", got)
		}
	}
	_ = s.in.Close()
	if err := s.ends(15 * time.Second); err != nil {
		t.Error(err)
	}
	nothingLeft(t, root, 5*time.Second)
}
