//go:build unix

package remote_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

const honest = `{"protocol":1,"id":"default","kind":"local","ref":"","root":"/w","start":true,"snapshots":true}`

// lie dials a server that answers about itself as about says and everything
// else as answer does.
func lie(t testing.TB, about string, answer http.HandlerFunc) (*workspace.Workspace, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/workspaces/default" {
			say(about)(w, r)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	d, err := remote.Dial(t.Context(), server.URL, "", remote.DialOptions{Patience: 300 * time.Millisecond, Keepalive: 200 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	ws, err := workspace.New(d, workspace.Options{Snapshots: d.Snapshots()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	return ws, nil
}

// say answers with JSON.
func say(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

const aFile = `"type":"file","perm":420,"size":3,"modified":"2020-01-01T00:00:00Z","changed":"2020-01-01T00:00:00Z","version":"v","id":"1","uid":0,"gid":0,"links":1`

const aDescription = `size=3, perm=420, uid=0, gid=0, links=1, modified="2020-01-01T00:00:00Z", changed="2020-01-01T00:00:00Z", version="v", id="1"`

func entries(more bool, names ...string) string {
	var list []string
	for _, n := range names {
		quoted, _ := json.Marshal(n)
		list = append(list, `{"name":`+string(quoted)+`,`+aFile+`}`)
	}
	return fmt.Sprintf(`{"entries":[%s],"more":%v}`, strings.Join(list, ","), more)
}

func wantUnavailable(t testing.TB, what string, err error) {
	t.Helper()
	if workspace.CodeOf(err) != workspace.ErrUnavailable {
		t.Errorf("%s: %v, want %s", what, err, workspace.ErrUnavailable)
	}
}

func TestAServerThatLiesAboutItselfIsNotDialled(t *testing.T) {
	for what, about := range map[string]string{
		"a later protocol":  strings.Replace(honest, `"protocol":1`, `"protocol":2`, 1),
		"no protocol":       strings.Replace(honest, `"protocol":1`, `"protocol":0`, 1),
		"a relative root":   strings.Replace(honest, `"/w"`, `"w"`, 1),
		"a root with dots":  strings.Replace(honest, `"/w"`, `"/w/../etc"`, 1),
		"no root":           strings.Replace(honest, `"/w"`, `""`, 1),
		"a root with a NUL": strings.Replace(honest, `"/w"`, `"/w\u0000"`, 1),
		"a key twice":       strings.Replace(honest, `"start":true`, `"root":"/","start":true`, 1),
		"no JSON":           "<html>",
		"nothing":           "",
		"half of it":        honest[:30],
	} {
		_, err := lie(t, about, say("{}"))
		wantUnavailable(t, what, err)
	}
	if _, err := lie(t, strings.Replace(honest, `"start"`, `"later":1,"start"`, 1), say("{}")); err != nil {
		t.Errorf("a field that a later server adds: %v", err)
	}
}

func TestListedNamesAreCheckedAtTheClient(t *testing.T) {
	for what, body := range map[string]string{
		"a slash":         entries(false, "a/b"),
		"an absolute one": entries(false, "/etc"),
		"dot dot":         entries(false, ".."),
		"dot":             entries(false, "."),
		"empty":           entries(false, ""),
		"a NUL":           entries(false, "a\x00b"),
		"a long one":      entries(false, strings.Repeat("a", 256)),
		"out of order":    entries(false, "b", "a"),
		"twice":           entries(false, "a", "a"),
		"an endless page": entries(true),
		"a type":          strings.Replace(entries(false, "a"), `"file"`, `"door"`, 1),
		"a size":          strings.Replace(entries(false, "a"), `"size":3`, `"size":-3`, 1),
		"a mode":          strings.Replace(entries(false, "a"), `"perm":420`, `"perm":4294967295`, 1),
		"a version":       strings.Replace(entries(false, "a"), `"version":"v"`, `"version":"v\r\nX: y"`, 1),
		"no list":         `{"entries":7}`,
		"too long":        `{"entries":[],"more":false,"x":"` + strings.Repeat("a", 70<<20) + `"}`,
	} {
		ws, err := lie(t, honest, say(body))
		if err != nil {
			t.Fatal(err)
		}
		list, err := ws.ReadDir(t.Context(), ".", workspace.ListOptions{})
		wantUnavailable(t, what, err)
		if len(list.Entries) > 0 {
			t.Errorf("%s: %v is passed on", what, list.Entries)
		}
	}
	ws, err := lie(t, honest, say(entries(true, "b", "c")))
	if err != nil {
		t.Fatal(err)
	}
	// The same page for ever: the second time it is out of order.
	_, err = ws.ReadDir(t.Context(), ".", workspace.ListOptions{})
	wantUnavailable(t, "a page that repeats", err)
	_, err = ws.ReadDir(t.Context(), ".", workspace.ListOptions{Limit: 1})
	wantUnavailable(t, "more than was asked for", err)
}

func TestSnapshotPathsAreCheckedAtTheClient(t *testing.T) {
	for what, body := range map[string]string{
		"a diff":  `{"changes":[{"path":"../x","kind":"added"}]}`,
		"another": `{"changes":[{"path":"/etc/passwd","kind":"added"}]}`,
	} {
		ws, err := lie(t, honest, say(body))
		if err != nil {
			t.Fatal(err)
		}
		store, err := ws.Snapshots()
		if err != nil {
			t.Fatal(err)
		}
		_, err = store.Diff(t.Context(), "a", "b", workspace.DiffOptions{})
		wantUnavailable(t, what, err)
	}
}

// TestAFileThatIsNotSentAsPromisedIsAnError reads from servers that send less,
// more, or something else.
func TestAFileThatIsNotSentAsPromisedIsAnError(t *testing.T) {
	file := func(header, length, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if header != "" {
				w.Header().Set("Wsctl-File", header)
			}
			w.Header().Set("Content-Length", length)
			_, _ = io.WriteString(w, body)
		}
	}
	const good = aDescription
	for what, answer := range map[string]http.HandlerFunc{
		"no description":     file("", "3", "abc"),
		"a negative size":    file(strings.Replace(good, "size=3", "size=-3", 1), "3", "abc"),
		"a mode":             file(strings.Replace(good, "perm=420", "perm=99999", 1), "3", "abc"),
		"half a description": file(good[:40], "3", "abc"),
		"more of it":         file(good+", type=x", "3", "abc"),
		"more than its size": file(good, "4", "abcd"),
		"less than its size": file(good, "2", "ab"),
		"half of it":         file(good, "3", "a"),
		"nothing":            file(good, "3", ""),
		"a part":             func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(206) },
		"a redirect": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		"a page of a proxy": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	} {
		ws, err := lie(t, honest, answer)
		if err != nil {
			t.Fatal(err)
		}
		data, err := ws.ReadFile(t.Context(), "f", 0)
		wantUnavailable(t, what, err)
		if data != nil {
			t.Errorf("%s: %q is passed on", what, data)
		}
	}
	ws, err := lie(t, honest, file(good, "3", "abc"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := ws.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = f.ReadAt(make([]byte, 1), 1)
	wantUnavailable(t, "the whole in place of a range", err)
}

func TestAnErrorThatIsNotKnownIsAnError(t *testing.T) {
	fail := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for body, want := range map[string]workspace.Code{
		`{"error":{"code":"NOT_FOUND","message":"m"}}`:       workspace.ErrNotFound,
		`{"error":{"code":"FINE","message":"m"}}`:            workspace.ErrIO,
		`{"error":{"code":"","message":"m"}}`:                workspace.ErrUnavailable,
		`{"error":{}}`:                                       workspace.ErrUnavailable,
		`{}`:                                                 workspace.ErrUnavailable,
		`{"error":{"code":"ABORTED","message":"\u001b[2J"}}`: workspace.ErrAborted,
	} {
		ws, err := lie(t, honest, fail(404, body))
		if err != nil {
			t.Fatal(err)
		}
		_, err = ws.Stat(t.Context(), "f")
		if workspace.CodeOf(err) != want || strings.ContainsRune(err.Error(), 0x1b) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// TestASilentServerIsGivenUp waits for servers that say nothing, and not for
// ever; one that works slowly is waited for.
func TestASilentServerIsGivenUp(t *testing.T) {
	silent := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server would not see the client go
		<-r.Context().Done()
	}
	ws, err := lie(t, honest, silent)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background() // without an end of its own
	began := time.Now()
	_, err = ws.Stat(ctx, "f")
	wantUnavailable(t, "Stat", err)
	_, err = ws.WriteFile(ctx, "f", []byte("x"), workspace.WriteOptions{})
	wantUnavailable(t, "Write", err)
	_, err = ws.Write(ctx, "f", io.LimitReader(repeat(make([]byte, 4096)), 1<<20), workspace.WriteOptions{})
	wantUnavailable(t, "a long Write", err)
	_, err = ws.Exec(ctx, workspace.Command{Args: []string{"true"}})
	wantUnavailable(t, "Exec", err)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("all of it took %v", took)
	}
	// Half an answer, and then nothing.
	ws, err = lie(t, honest, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Wsctl-File", aDescription)
		w.Header().Set("Content-Length", "3")
		_, _ = io.WriteString(w, "a")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	if err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	_, err = ws.ReadFile(ctx, "f", 0)
	wantUnavailable(t, "half a file", err)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("half a file took %v", took)
	}
	ws, err = lie(t, honest, func(w http.ResponseWriter, r *http.Request) {
		for range 6 {
			time.Sleep(100 * time.Millisecond)
			w.WriteHeader(http.StatusProcessing)
		}
		say("{"+aFile+"}")(w, r)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = ws.Stat(ctx, "f"); err != nil {
		t.Errorf("work of twice the patience, with signs of life: %v", err)
	}
}

// TestAnEndThatNoCommandCanHaveIsAnError runs commands on servers that tell
// what cannot be, or nothing.
func TestAnEndThatNoCommandCanHaveIsAnError(t *testing.T) {
	run := func(frames ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/ready"):
				say("{}")(w, r)
				return
			case strings.HasSuffix(r.URL.Path, "/stat"):
				say("{"+strings.Replace(aFile, `"file"`, `"directory"`, 1)+"}")(w, r)
				return
			}
			c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"wsctl.exec.v1"}})
			if err != nil {
				return
			}
			defer c.CloseNow()
			_, _, _ = c.Read(r.Context())
			for _, f := range frames {
				_ = c.Write(r.Context(), websocket.MessageBinary, []byte(f))
			}
			_, _, _ = c.Read(r.Context())
		}
	}
	for what, frames := range map[string][]string{
		"status 256":           {"\x13" + `{"code":256}`},
		"a negative one":       {"\x13" + `{"code":-1}`},
		"signal 65":            {"\x13" + `{"code":1,"signal":65}`},
		"a signal and 0":       {"\x13" + `{"code":0,"signal":9}`},
		"negative usage":       {"\x13" + `{"code":0,"usage":{"userNs":-1,"systemNs":0,"maxRss":0}}`},
		"a code twice":         {"\x13" + `{"code":1,"code":0}`},
		"no JSON":              {"\x13"},
		"an unknown frame":     {"\x63"},
		"started twice":        {"\x10", "\x10"},
		"an empty frame":       {"\x11"},
		"a client's frame":     {"\x02x"},
		"too much credit":      {"\x20\x02\x00\x10\x00\x00"},
		"credit of nothing":    {"\x20\x02\x00\x00\x00\x00"},
		"a short credit":       {"\x20\x02"},
		"more than its window": {strings.Repeat("\x11", 60<<10), strings.Repeat("\x11", 60<<10), strings.Repeat("\x11", 60<<10), strings.Repeat("\x11", 60<<10), strings.Repeat("\x11", 60<<10)},
		"a huge frame":         {"\x11" + strings.Repeat("x", 1<<20)},
		"an empty error":       {"\x14{}"},
	} {
		ws, err := lie(t, honest, run(frames...))
		if err != nil {
			t.Fatal(err)
		}
		c := workspace.Command{Args: []string{"true"}}
		if strings.HasPrefix(what, "more than") {
			slow, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			c.Stdout = blocked{slow} // so that no room is given back
		}
		out, err := ws.Exec(t.Context(), c)
		wantUnavailable(t, what, err)
		if out != nil && out.ExitCode != 0 {
			t.Errorf("%s: status %d is passed on", what, out.ExitCode)
		}
	}
	// A status that the server made up for a command that it ended itself.
	ws, err := lie(t, honest, run("\x13"+`{"code":0,"stopped":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"true"}}); workspace.CodeOf(err) != workspace.ErrAborted {
		t.Errorf("a command that the server ended: %v", err)
	}
	// It never says that it is over.
	ws, err = lie(t, honest, run())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = ws.Exec(ctx, workspace.Command{Args: []string{"true"}, KillGrace: 100 * time.Millisecond})
	if took := time.Since(began); err == nil || took > 1800*time.Millisecond {
		t.Errorf("a command that never ends: %v after %v", err, took)
	}
	// It never says that it has started.
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := ws.Start(ctx, workspace.Command{Args: []string{"true"}}); workspace.CodeOf(err) != workspace.ErrAborted {
		t.Errorf("a process that never starts: %v", err)
	}
}

// TestATokenGoesNowhereElse redirects a client to another server.
func TestATokenGoesNowhereElse(t *testing.T) {
	var got atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	t.Cleanup(server.Close)
	token := issue(t, authority(t), "*", remote.Read)
	if _, err := remote.Dial(t.Context(), server.URL, token, remote.DialOptions{}); workspace.CodeOf(err) != workspace.ErrUnavailable {
		t.Errorf("a redirect: %v", err)
	}
	if got.Load() != 0 {
		t.Error("the client went where it was sent")
	}
	for _, address := range []string{"http://192.0.2.1", "https://u:p@127.0.0.1", "https://127.0.0.1/?token=x", "https://127.0.0.1/#x", "ftp://127.0.0.1", "127.0.0.1:80", "https://127.0.0.1/v2/workspaces/x", "https://127.0.0.1/v1/workspaces/a%2fb", "https://127.0.0.1/v1/workspaces/..", ""} {
		_, err := remote.Dial(t.Context(), address, token, remote.DialOptions{})
		if workspace.CodeOf(err) != workspace.ErrInvalidArgument {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestABadNetworkIsNeverAWrongResult works through a proxy that delays and
// resets connections at random. Each call is right or UNAVAILABLE, and some are
// either.
func TestABadNetworkIsNeverAWrongResult(t *testing.T) {
	served, _ := newHost(t)
	p := newProxy(t, serve(t, served, remote.Options{}))
	d, err := remote.Dial(t.Context(), p.address, "", remote.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	rounds := 12
	if os.Getenv("WSCTL_SOAK") != "" {
		rounds = 400
	}
	big := strings.Repeat("0123456789abcdef", 20_000)
	if _, err := served.WriteFile(t.Context(), "big", []byte(big), workspace.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.setBad(3*time.Millisecond, 500_000)
	p.cut() // what was opened before is good
	var good, lost atomic.Int32
	check := func(what string, err error, right bool) {
		switch {
		case err == nil && right:
			good.Add(1)
		case workspace.CodeOf(err) == workspace.ErrUnavailable:
			lost.Add(1)
		default:
			t.Errorf("%s: %v, right: %v", what, err, right)
		}
	}
	done := make(chan struct{})
	for w := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range rounds {
				name := fmt.Sprintf("f%d-%d", w, i)
				content := strings.Repeat(name, 10_000)
				fi, err := ws.WriteFile(t.Context(), name, []byte(content), workspace.WriteOptions{})
				check("write", err, err != nil || fi.Size() == int64(len(content)))
				// Whatever the writer was told, the file is whole or not there.
				if got, err := served.ReadFile(t.Context(), name, 0); err == nil && string(got) != content {
					t.Errorf("%s has %d bytes of %d", name, len(got), len(content))
				}
				data, err := ws.ReadFile(t.Context(), "big", 0)
				check("read", err, string(data) == big)
				out, err := ws.Exec(t.Context(), workspace.Command{Shell: "echo " + name + "; head -c 300000 /dev/zero | tr '\\0' x; exit 3"})
				check("exec", err, err != nil || out.ExitCode == 3 && string(out.Stdout) == name+"\n"+strings.Repeat("x", 300_000))
			}
		}()
	}
	for range 4 {
		<-done
	}
	t.Logf("%d calls were right, %d unavailable", good.Load(), lost.Load())
	if good.Load() == 0 || lost.Load() == 0 {
		t.Errorf("%d calls were right and %d unavailable; the network is too good or too bad to show anything", good.Load(), lost.Load())
	}
}
