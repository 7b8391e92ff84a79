//go:build unix

package mcpserver_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wsctl/wsctl/mcpserver"
	"github.com/wsctl/wsctl/tools"
)

// serveHTTP serves set on a loopback address and returns its URL.
func serveHTTP(t *testing.T, set *tools.Set, o mcpserver.HTTPOptions) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := mcpserver.New(set, mcpserver.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.ServeHTTP(ctx, l, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return "http://" + l.Addr().String()
}

const helloBody = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// post sends helloBody, changed by change.
func post(t *testing.T, url string, change func(*http.Request)) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(helloBody))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if change != nil {
		change(req)
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       10 * time.Second,
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func TestWebPagesReachNothing(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	set, _ := newSet(t, tools.Options{})
	url := serveHTTP(t, set, mcpserver.HTTPOptions{Token: token, Hosts: []string{"box.example"}})
	header := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+token)
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == "Host" {
					r.Host = pairs[i+1]
				} else {
					r.Header.Set(pairs[i], pairs[i+1])
				}
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*http.Request)
		path   string
		status int
	}{
		"good":                {header(), "/mcp", 200},
		"good, by name":       {header("Host", "localhost:1"), "/mcp", 200},
		"good, by its name":   {header("Host", "Box.Example"), "/mcp", 200},
		"good, own origin":    {header("Host", "localhost:1", "Origin", "http://localhost:1"), "/mcp", 200},
		"stateless":           {header(), "/mcp/stateless", 200},
		"foreign host":        {header("Host", "evil.example"), "/mcp", 403},
		"host that begins so": {header("Host", "127.0.0.1.evil.example"), "/mcp", 403},
		"host that ends so":   {header("Host", "evil-localhost"), "/mcp", 403},
		"foreign origin":      {header("Origin", "http://evil.example"), "/mcp", 403},
		"other port's origin": {header("Origin", "http://127.0.0.1:1"), "/mcp", 403},
		"opaque origin":       {header("Origin", "null"), "/mcp", 403},
		"cross-site":          {header("Sec-Fetch-Site", "cross-site"), "/mcp", 403},
		"same-site":           {header("Sec-Fetch-Site", "same-site"), "/mcp", 403},
		"text/plain":          {header("Content-Type", "text/plain"), "/mcp", 403},
		"form":                {header("Content-Type", "application/x-www-form-urlencoded"), "/mcp", 403},
		"multipart":           {header("Content-Type", "multipart/form-data; boundary=x"), "/mcp", 403},
		"no type":             {header("Content-Type", ""), "/mcp", 403},
		"no token":            {func(*http.Request) {}, "/mcp", 401},
		"other token":         {header("Authorization", "Bearer "+token[1:]), "/mcp", 401},
		"empty token":         {header("Authorization", "Bearer "), "/mcp", 401},
		"other scheme":        {header("Authorization", "Basic "+token), "/mcp", 401},
		"two tokens": {func(r *http.Request) {
			r.Header["Authorization"] = []string{"Bearer " + token, "Bearer x"}
		}, "/mcp", 401},
		"token in the URL":      {header("Authorization", ""), "/mcp?access_token=" + token, 400},
		"token in the URL too":  {header(), "/mcp?token=" + token, 400},
		"elsewhere":             {header(), "/", 404},
		"below":                 {header(), "/mcp/x", 404},
		"encoded":               {header(), "/%6dcp", 404},
		"doubled slash":         {header(), "//mcp", 404},
		"dots":                  {header(), "/x/../mcp", 404},
		"trailing":              {header(), "/mcp/", 404},
		"backslash in disguise": {header(), "/mcp%5cstateless", 404},
	} {
		res := post(t, url+c.path, c.change)
		if res.StatusCode != c.status {
			body, _ := io.ReadAll(res.Body)
			t.Errorf("%s: status %d, want %d: %s", name, res.StatusCode, c.status, body)
		}
		if res.Header.Get("Location") != "" {
			t.Errorf("%s: redirected", name)
		}
		if res.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(res.Header.Get("Content-Security-Policy"), "sandbox") ||
			!strings.HasPrefix(res.Header.Get("Content-Disposition"), "attachment") || res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: the headers are %v", name, res.Header)
		}
	}
}

func TestNothingOpenIsServedBeyondLoopback(t *testing.T) {
	set, _ := newSet(t, tools.Options{})
	for name, o := range map[string]mcpserver.HTTPOptions{
		"neither": {}, "no TLS": {Token: "0123456789abcdef0123456789abcdef"}, "no token": {TLS: &tls.Config{}},
	} {
		l, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		s := mcpserver.New(set, mcpserver.Options{})
		if err := s.ServeHTTP(t.Context(), l, o); err == nil {
			t.Errorf("%s: served", name)
		}
		if _, err := l.Accept(); err == nil {
			t.Errorf("%s: the listener is open", name)
		}
		s.Close()
	}
}

func textOf(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	text, ok := r.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("got %+v", r)
	}
	return text.Text
}

// One URL serves both kinds of client, and each can be asked.
func TestHTTPServesEveryRevision(t *testing.T) {
	for path, versions := range map[string][]string{
		"/mcp":           {"2025-11-25", "2026-07-28"},
		"/mcp/stateless": {"2026-07-28"},
	} {
		for _, version := range versions {
			set, dir := newSet(t, asking)
			put(t, dir, "b.txt", "one\n")
			url := serveHTTP(t, set, mcpserver.HTTPOptions{})
			heard := make(chan string, 100)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "accept"}, nil
				},
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					heard <- r.Params.Message
				},
			})
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url + path}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			if got := session.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("%s: %s became %s", path, version, got)
			}
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "x"}})
			if err != nil || r.IsError || !written(dir) {
				t.Errorf("%s, %s: %v, %+v", path, version, err, r)
			}
			p := &mcp.CallToolParams{Name: "run_command", Arguments: map[string]any{"command": "echo live; sleep 0.5; echo done"}}
			p.SetProgressToken("t")
			if r, err = session.CallTool(t.Context(), p); err != nil || !strings.Contains(textOf(t, r), "done") {
				t.Errorf("%s, %s: %v, %+v", path, version, err, r)
			}
			select {
			case text := <-heard:
				if !strings.Contains(text, "live") {
					t.Errorf("%s, %s: heard %q", path, version, text)
				}
			case <-time.After(5 * time.Second):
				t.Errorf("%s, %s: heard nothing", path, version)
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// The end of a session ends its commands, and no other's.
func TestEndOfSessionKills(t *testing.T) {
	set, dir := newSet(t, tools.Options{})
	url := serveHTTP(t, set, mcpserver.HTTPOptions{}) + "/mcp"
	begin := func() (session string) {
		t.Helper()
		res := post(t, url, nil)
		if session = res.Header.Get("Mcp-Session-Id"); session == "" {
			t.Fatalf("no session: %v", res.Header)
		}
		return session
	}
	run := func(session, script string) chan string {
		t.Helper()
		answered := make(chan string, 1)
		body := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"` + script + `"}}}`
		go func() {
			res := post(t, url, func(r *http.Request) {
				r.Header.Set("Mcp-Session-Id", session)
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
			})
			text, _ := io.ReadAll(res.Body)
			answered <- string(text)
		}()
		return answered
	}
	ends, stays := begin(), begin()
	other := run(stays, "sleep 4; echo stayed")
	run(ends, "echo $$ >pid; sleep 60")
	pid := started(t, dir)
	res := post(t, url, func(r *http.Request) {
		r.Method = http.MethodDelete
		r.Header.Set("Mcp-Session-Id", ends)
	})
	if res.StatusCode != http.StatusNoContent {
		t.Errorf("status %d", res.StatusCode)
	}
	gone(t, pid, graceLimit)
	if got := <-other; !strings.Contains(got, "stayed") {
		t.Errorf("the other session's command: %s", got)
	}
}

// What is too large or never comes is refused, whatever its header says.
func TestBodiesAreBounded(t *testing.T) {
	set, _ := newSet(t, tools.Options{})
	url := serveHTTP(t, set, mcpserver.HTTPOptions{}) + "/mcp"
	for name, length := range map[string]int64{"told": 17 << 20, "not told": -1} {
		res := post(t, url, func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(io.LimitReader(zeros{}, 17<<20)), length
		})
		if res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d", name, res.StatusCode)
		}
	}
	if res := post(t, url, func(r *http.Request) { r.Header.Set("X-Large", strings.Repeat("x", 64<<10)) }); res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a large header: status %d", res.StatusCode)
	}
	if res := post(t, url, nil); res.StatusCode != http.StatusOK {
		t.Errorf("after that: status %d", res.StatusCode)
	}
}

// zeros never ends.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
