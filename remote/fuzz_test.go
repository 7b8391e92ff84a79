//go:build unix

package remote_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// FuzzName sends names of any bytes there and back.
func FuzzName(f *testing.F) {
	for _, name := range []string{"plain", "\xff\xfe", "é", "\ufffd", "a\nb", `"\`, "\x00", "a/b", "..", "", "\xed\xa0\x80", "%2e%2e", "a&b=c;d+e"} {
		f.Add(name)
	}
	served := hostOnly(f)
	driver := dial(f, serve(f, served, remote.Options{}), "")
	ws, err := workspace.New(driver, workspace.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = ws.Close() })
	f.Fuzz(func(t *testing.T, name string) {
		if back := remote.TextThereAndBack(t, name); back != name {
			t.Errorf("%q comes back as %q", name, back)
		}
		ctx := t.Context()
		_, far := ws.WriteFile(ctx, name, []byte("x"), workspace.WriteOptions{})
		if code := workspace.CodeOf(far); code == workspace.ErrUnavailable || code == workspace.ErrIO {
			t.Fatalf("%q: %v", name, far)
		}
		if far == nil {
			if data, err := served.ReadFile(ctx, name, 0); string(data) != "x" {
				t.Errorf("%q is another file there: %v", name, err)
			}
			list, err := ws.ReadDir(ctx, ".", workspace.ListOptions{})
			if err != nil || len(list.Entries) == 0 {
				t.Errorf("%q: a list of %d entries, %v", name, len(list.Entries), err)
			}
			_ = served.Remove(ctx, strings.SplitN(strings.TrimLeft(name, "./"), "/", 2)[0], workspace.RemoveOptions{Recursive: true})
		}
	})
}

// hostOnly is a workspace without a keeper, for files.
func hostOnly(t testing.TB) *workspace.Workspace {
	t.Helper()
	d, err := host.New(t.TempDir(), host.Options{Env: []string{hostEnv}})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(d, workspace.Options{Snapshots: canned{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	return ws
}

// FuzzBody sends any body to every route that takes one. An answer is a
// success or a problem, and the server goes on.
func FuzzBody(f *testing.F) {
	for i, body := range []string{
		`{"path":"a"}`, `{"path":{"base64":"/w=="},"perm":420}`, `{"from":"a","to":"b"}`, `{"ids":["a"]}`, `{"label":"x","metadata":{"a":[1]}}`,
		`{"from":"latest","paths":[{"base64":"/w=="}]}`, `{"path":"a","path":"b"}`, `[[[[`, "\xff", `{"perm":1e99}`,
	} {
		f.Add(uint8(i), []byte(body))
	}
	h, err := remote.Handler(hostOnly(f), remote.Options{Anonymous: true})
	if err != nil {
		f.Fatal(err)
	}
	var posts []remote.Route
	for _, r := range h.Routes() {
		if r.Method == http.MethodPost {
			posts = append(posts, r)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		route := posts[int(which)%len(posts)]
		r := httptest.NewRequest(route.Method, "http://localhost"+target(route, remote.DefaultID), strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var problem struct {
			Error struct {
				Code    workspace.Code
				Message string
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || (w.Code == http.StatusOK) != (problem.Error.Code == "") {
			t.Errorf("%s %q: %d %s, %v", route.Path, body, w.Code, w.Body, err)
		}
		if strings.Contains(problem.Error.Message, "panic") || strings.Contains(problem.Error.Message, "its log says how") {
			t.Errorf("%s %q: %s", route.Path, body, w.Body)
		}
	})
}

// FuzzFrames sends any frames to a command that runs. The server cuts who does
// not keep to the protocol, ends the command, and goes on.
func FuzzFrames(f *testing.F) {
	for _, frames := range []string{
		"\x02input\xff\x03", "\x04\x0f", "\x05\x00\x18\x00\x50", "\x06", "\x20\x11\x00\x00\x10\x00", "\x20\x02\x00\x00\x00\x01", "\x04\x00", "\x63", "\x01{}", "\x05x", "\x02",
	} {
		f.Add(`{"mode":"exec","shell":"cat","stdin":true,"timeoutMs":200,"killGraceMs":0}`, []byte(frames))
	}
	f.Add(`{"mode":"start","args":["true"],"timeoutMs":200}`, []byte("\x06"))
	f.Add(`{"mode":"both"}`, []byte("\x06"))
	f.Add(`{"mode":"exec","args":["true"],"timeoutMs":-1}`, []byte("\x06"))
	f.Add(`{"mode":"exec","args":["sh","-c","yes"],"terminal":{"rows":1,"cols":1},"timeoutMs":200}`, []byte("\x06"))
	f.Add(`x`, []byte("\x06"))
	served := hostOnly(f)
	address := serve(f, served, remote.Options{})
	f.Fuzz(func(t *testing.T, start string, frames []byte) {
		if strings.Contains(start, `"shell"`) != strings.Contains(start, `"shell":"cat"`) || strings.Contains(start, `"args"`) && !strings.Contains(start, `["true"]`) && !strings.Contains(start, `["sh","-c","yes"]`) {
			t.Skip("commands are not fuzzed: they run on this machine")
		}
		c := startFrames(t, address, start)
		for _, frame := range strings.Split(string(frames), "\xff") {
			if c.Write(t.Context(), websocket.MessageBinary, []byte(frame)) != nil {
				break
			}
		}
		_ = c.Write(t.Context(), websocket.MessageBinary, []byte{6})
		for {
			kind, _ := c.next(t)
			if kind == 0 {
				break
			}
			if kind < 16 || kind > 20 && kind != 32 {
				t.Errorf("frame %d from a server", kind)
			}
		}
		if _, err := served.Stat(t.Context(), "."); err != nil {
			t.Errorf("the workspace is no good after it: %v", err)
		}
	})
}
