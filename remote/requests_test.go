//go:build unix

package remote_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// raw sends bytes to a server and reads the answer, as no client would.
func raw(t testing.TB, address, request string) *http.Response {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, strings.ReplaceAll(request, "HOST", u.Host)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%.100q: %v", request, err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func get(target string, headers ...string) string {
	return "GET " + target + " HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n" + strings.Join(append(headers, "\r\n"), "")
}

// TestWhereNobodyListensNothingIsDone: the caller is not left in doubt.
func TestWhereNobodyListensNothingIsDone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + l.Addr().String()
	_ = l.Close()
	_, err = remote.Dial(t.Context(), address, "", remote.DialOptions{})
	if workspace.CodeOf(err) != workspace.ErrUnavailable || !strings.Contains(err.Error(), "no server answers") {
		t.Error(err)
	}
}

// TestARequestPathHasOneSpelling tries what servers and proxies read in
// different ways. Nothing is cleaned, decoded or redirected.
func TestARequestPathHasOneSpelling(t *testing.T) {
	ws, _ := newHost(t)
	address := serve(t, ws, remote.Options{})
	const w = "/v1/workspaces/default"
	if resp := raw(t, address, get(w+"/stat?path=.")); resp.StatusCode != http.StatusOK {
		t.Fatalf("the plain spelling: %d", resp.StatusCode)
	}
	for _, target := range []string{
		"/v1/workspaces/%64efault/stat?path=.", "/v1/workspaces/x/../default/stat?path=.", w + "/./stat?path=.",
		"/v1/%2e%2e/v1/workspaces/default", "/v1/workspaces/%2e%2e", "/v1/workspaces/..%2fdefault", w + "%2fstat?path=.",
		w + "%5cstat?path=.", w + `\stat?path=.`, "/v1/workspaces/%252e%252e/default", w + "/stat;x=1?path=.", w + "/stat;?path=.",
		w + "/stat%00?path=.", "//v1/workspaces/default/stat?path=.", "/v1//workspaces/default/stat?path=.", w + "//stat?path=.",
		w + "/?path=.", w + "/stat/?path=.", "/", "/v1/", w + "/%73tat?path=.", w + "/sta\xff?path=.", "http://HOST//v1", "/v1/workspaces/.hidden",
		w + "/stat?path=.&path=..", w + "/stat?path=.;x", w + "/stat?path=%zz", w + "/stat?path=.&token=x", w + "/stat?path=.&access_token=x",
		w + "/stat?PATH=.", w + "/stat?path=", w + "/stat?path=%00", w + "/stat?path=a%00b", w + "/stat", w + "/list?path=.&limit=-1", w + "/list?path=.&limit=x",
		w + "/stat?path=.&follow=maybe", "/v1/workspaces/" + strings.Repeat("a", 200),
	} {
		resp := raw(t, address, get(target))
		if resp.StatusCode != http.StatusBadRequest || resp.Header.Get("Location") != "" {
			t.Errorf("%q: %d, Location %q", target, resp.StatusCode, resp.Header.Get("Location"))
		}
	}
	// In the query a name is a name.
	for name, want := range map[string]int{
		"%2e": 200, "%252e": 404, "..%2f..%2fetc": 403, "a%5c..%5cb": 404, "%2e%2e": 403, "/etc/passwd": 403, "x%2f..%2f..": 403, "%ff": 404,
	} {
		if resp := raw(t, address, get(w+"/stat?path="+name)); resp.StatusCode != want {
			t.Errorf("path=%s: %d, want %d", name, resp.StatusCode, want)
		}
	}
	for _, path := range []string{"/v2/workspaces/default", "/v1/workspaces", w + "/nothing", "/v1/openapi.yaml"} {
		if resp := raw(t, address, get(path)); resp.StatusCode != http.StatusNotFound || resp.Header.Get("Location") != "" {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	for _, method := range []string{"POST", "DELETE", "OPTIONS", "TRACE", "BREW", "CONNECT"} {
		if resp := raw(t, address, method+strings.TrimPrefix(get(w+"/stat?path=."), "GET")); resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", method, resp.StatusCode)
		}
	}
}

// TestAPageCannotUseAServer sends what a browser sends for a page that is none
// of the server's.
func TestAPageCannotUseAServer(t *testing.T) {
	ws, _ := newHost(t)
	address := serve(t, ws, remote.Options{Hosts: []string{"Build.example"}, Origins: []string{"https://ui.example"}})
	const path = "/v1/workspaces/default"
	post := func(headers string) string {
		return "POST " + path + "/mkdir HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n" + headers + "Content-Length: 12\r\n\r\n{\"path\":\"d\"}"
	}
	withHost := func(host string) string { return strings.Replace(get(path), "HOST", host, 1) }
	for what, c := range map[string]struct {
		request string
		status  int
	}{
		"its own address":          {get(path), 200},
		"localhost":                {withHost("localhost:1"), 200},
		"loopback":                 {withHost("[::1]:80"), 200},
		"a name that is listed":    {withHost("build.EXAMPLE:7777"), 200},
		"a foreign name":           {withHost("evil.example"), 403},
		"a name that begins so":    {withHost("localhost.evil.example"), 403},
		"an address":               {withHost("192.0.2.1"), 403},
		"an odd name":              {withHost("127.0.0.1.nip.example"), 403},
		"a foreign origin":         {get(path, "Origin: https://evil.example\r\n"), 403},
		"the null origin":          {get(path, "Origin: null\r\n"), 403},
		"its own as origin":        {get(path, "Origin: http://127.0.0.1\r\n"), 403},
		"an origin that is listed": {get(path, "Origin: https://ui.example\r\nSec-Fetch-Site: cross-site\r\n"), 200},
		"two origins":              {get(path, "Origin: https://ui.example\r\nOrigin: https://evil.example\r\n"), 403},
		"a cross-site fetch":       {get(path, "Sec-Fetch-Site: cross-site\r\n"), 403},
		"a same-site fetch":        {get(path, "Sec-Fetch-Site: same-site\r\n"), 403},
		"typed into a browser":     {get(path, "Sec-Fetch-Site: none\r\n"), 200},
		"text/plain":               {post("Content-Type: text/plain\r\n"), 403},
		"a form":                   {post("Content-Type: application/x-www-form-urlencoded\r\n"), 403},
		"no type":                  {post(""), 403},
		"a type with more":         {post("Content-Type: application/json; charset=utf-16\r\n"), 403},
		"a type that is two":       {post("Content-Type: text/plain\r\nContent-Type: application/json\r\n"), 403},
		"JSON":                     {post("Content-Type: application/json\r\n"), 200},
		"a WebSocket of a page":    {get(path+"/exec", "Origin: https://evil.example\r\nUpgrade: websocket\r\n"), 403},
	} {
		if resp := raw(t, address, c.request); resp.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", what, resp.StatusCode, c.status)
		}
	}
}

// TestABodyIsReadStrictly sends JSON that decoders read in different ways.
func TestABodyIsReadStrictly(t *testing.T) {
	ws, dir := newHost(t)
	address := serve(t, ws, remote.Options{})
	for body, want := range map[string]int{
		`{"path":"good"}`:                    200,
		`{"path":{"base64":"/w=="}}`:         200,
		`{"path":"a","path":"b"}`:            400,
		`{"path":"a","PATH":"b"}`:            400,
		`{"path":"a","more":1}`:              400,
		`{"path":"a"}{"path":"b"}`:           400,
		`{"path":"a"} x`:                     400,
		`{"path":"\ud800"}`:                  400,
		`{"path":"` + "\xff" + `"}`:          400,
		`{"path":"\ufffd"}`:                  400,
		`{"path":{"base64":"/w"}}`:           400,
		`{"path":{"base64":null}}`:           400,
		`{"path":{}}`:                        400,
		`{"path":null}`:                      400,
		`{"path":7}`:                         400,
		`{"path":"a","perm":-1}`:             400,
		`{"path":"a","perm":4095}`:           400,
		`{"path":"a","perm":4294967295}`:     400,
		`{"path":"a\u0000b"}`:                400,
		`{"path":""}`:                        400,
		`[]`:                                 400,
		`null`:                               400,
		`{"path":` + strings.Repeat("[", 50): 400,

		`{"path":"` + strings.Repeat("a", 2<<20) + `"}`: 413,
	} {
		status, _, _ := ask(t, "POST", address+"/v1/workspaces/default/mkdir", "", body)
		if status != want {
			t.Errorf("%.80q: %d, want %d", body, status, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the root holds %v, %v", entries, err)
	}
}

// TestAFileIsNeverAPage fetches what a browser would show.
func TestAFileIsNeverAPage(t *testing.T) {
	ws, dir := newHost(t)
	address := serve(t, ws, remote.Options{})
	for _, name := range []string{"page.html", "image.svg", "a\r\nSet-Cookie: x=1\r\n\r\nbody", `quo"te;x=y.html`, "\xff.html", "é.html", "../x"} {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte("<script>alert(1)</script>"), 0o600); err != nil {
			t.Fatal(err)
		}
		resp, err := http.Get(address + "/v1/workspaces/default/file?path=" + url.QueryEscape(filepath.Base(name)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		h := resp.Header
		if resp.StatusCode != 200 || h.Get("Content-Type") != "application/octet-stream" || h.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox") || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") ||
			h.Get("Set-Cookie") != "" || len(h.Values("Content-Disposition")) != 1 {
			t.Errorf("%q: %d %v", name, resp.StatusCode, h)
		}
		for key, values := range h {
			for _, v := range values {
				if strings.ContainsAny(v, "\r\n\x00") {
					t.Errorf("%q: the header %s is %q", name, key, v)
				}
			}
		}
	}
}

// TestAnErrorIsShort asks for paths that are longer than any.
func TestAnErrorIsShort(t *testing.T) {
	ws, _ := newHost(t)
	address := serve(t, ws, remote.Options{})
	resp := raw(t, address, get("/v1/workspaces/default/stat?path="+strings.Repeat("a", 25_000)))
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 400 || len(body) > 5000 {
		t.Errorf("%d with %d bytes, %v", resp.StatusCode, len(body), err)
	}
}

// TestAHalfSentBodyMakesNoFile ends uploads early, in every way.
func TestAHalfSentBodyMakesNoFile(t *testing.T) {
	ws, dir := newHost(t)
	address := serve(t, ws, remote.Options{})
	const good = "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:" // of "hello"
	put := func(headers, body string) string {
		return "PUT /v1/workspaces/default/file?path=f HTTP/1.1\r\nHost: HOST\r\n" + headers + "\r\n" + body
	}
	const chunked = "Transfer-Encoding: chunked\r\nTrailer: Content-Digest\r\n"
	for what, c := range map[string]struct {
		request string
		status  int // 0: the connection is cut
	}{
		"half of its length":       {put("Content-Length: 10\r\n", "hello"), 0},
		"half of a chunk":          {put(chunked, "a\r\nhello"), 0},
		"no last chunk":            {put(chunked, "5\r\nhello\r\n"), 0},
		"no digest after chunks":   {put(chunked, "5\r\nhello\r\n0\r\n\r\n"), 400},
		"a wrong digest":           {put(chunked, "5\r\nhellO\r\n0\r\nContent-Digest: "+good+"\r\n\r\n"), 400},
		"a wrong digest at first":  {put("Content-Length: 5\r\nContent-Digest: "+good+"\r\n", "hellO"), 400},
		"a digest of another kind": {put("Content-Length: 5\r\nContent-Digest: md5=:XUFAKrxLKna5cZ2REBfFkg==:\r\n", "hello"), 400},
		"an encoding":              {put("Content-Length: 5\r\nContent-Encoding: gzip\r\n", "hello"), 400},
		"a weak version":           {put("Content-Length: 5\r\nIf-Match: W/\"x\"\r\n", "hello"), 400},
		"a list of versions":       {put("Content-Length: 5\r\nIf-Match: \"a\", \"b\"\r\n", "hello"), 400},
		"a version that is gone":   {put("Content-Length: 5\r\nIf-Match: \"x\"\r\n", "hello"), 412},
	} {
		if c.status != 0 {
			if resp := raw(t, address, c.request); resp.StatusCode != c.status {
				t.Errorf("%s: %d, want %d", what, resp.StatusCode, c.status)
			}
		} else {
			u, _ := url.Parse(address)
			conn, err := net.Dial("tcp", u.Host)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(conn, strings.ReplaceAll(c.request, "HOST", u.Host))
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.ReadAll(conn) // until the server has let go of it
			conn.Close()
		}
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			t.Fatalf("%s: the root holds %v", what, entries)
		}
	}
	for what, request := range map[string]string{
		"a length":            put("Content-Length: 5\r\nConnection: close\r\n", "hello"),
		"chunks and a digest": put(chunked+"Connection: close\r\n", "5\r\nhello\r\n0\r\nContent-Digest: "+good+"\r\n\r\n"),
	} {
		if resp := raw(t, address, request); resp.StatusCode != 200 {
			t.Errorf("%s: %d", what, resp.StatusCode)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "f")); string(got) != "hello" {
			t.Errorf("%s: the file is %q, %v", what, got, err)
		}
		_ = os.Remove(filepath.Join(dir, "f"))
	}
}

// TestADownloadGoesOnWhereItBroke reads ranges as curl does.
func TestADownloadGoesOnWhereItBroke(t *testing.T) {
	ws, _ := newHost(t)
	address := serve(t, ws, remote.Options{})
	if _, err := ws.WriteFile(t.Context(), "f", []byte("0123456789"), workspace.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	const path = "/v1/workspaces/default/file?path=f"
	version := raw(t, address, get(path)).Header.Get("ETag")
	for spec, want := range map[string]string{
		"bytes=4-": "206 bytes 4-9/10 456789", "bytes=0-0": "206 bytes 0-0/10 0", "bytes=-3": "206 bytes 7-9/10 789", "bytes=-99": "206 bytes 0-9/10 0123456789",
		"bytes=8-99": "206 bytes 8-9/10 89", "bytes=10-": "416 bytes */10 ", "bytes=-0": "416 bytes */10 ", "bytes=99999999999999999999-": "200  0123456789",
		"bytes=5-4": "200  0123456789", "bytes=1-2,4-5": "200  0123456789", "lines=1-2": "200  0123456789", "bytes=-": "200  0123456789", "bytes=+1-2": "200  0123456789",
	} {
		resp := raw(t, address, get(path, "Range: "+spec+"\r\n", "If-Match: "+version+"\r\n"))
		body, err := io.ReadAll(resp.Body)
		if got := fmt.Sprintf("%d %s %s", resp.StatusCode, resp.Header.Get("Content-Range"), body); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", spec, got, err, want)
		}
	}
	if _, err := ws.WriteFile(t.Context(), "f", []byte("9876543210"), workspace.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if resp := raw(t, address, get(path, "Range: bytes=4-\r\n", "If-Match: "+version+"\r\n")); resp.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("the rest of a file that is another now: %d", resp.StatusCode)
	}
	if resp := raw(t, address, "HEAD"+strings.TrimPrefix(get(path), "GET")); resp.StatusCode != 200 || resp.ContentLength != 10 {
		t.Errorf("HEAD: %d with %d bytes", resp.StatusCode, resp.ContentLength)
	}
}

// TestAnyTimeCanBeSent sets the times of files to what no date can be written
// for.
func TestAnyTimeCanBeSent(t *testing.T) {
	served, dir := newHost(t)
	ws, err := workspace.New(dial(t, serve(t, served, remote.Options{}), ""), workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	odd := 0
	for name, seconds := range map[string]int64{"old": -1 << 40, "ancient": -1 << 60, "late": 1 << 40, "last": 1 << 60, "2300": 10413792000} {
		path := touch(t, filepath.Join(dir, name))
		if err := os.Chtimes(path, time.Unix(seconds, 0), time.Unix(seconds, 0)); err != nil {
			continue
		}
		there, err := served.Stat(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if y := there.ModTime().Year(); y < 0 || y > 9999 {
			odd++
		}
		here, err := ws.Stat(t.Context(), name)
		if err != nil || there.ModTime().Year() == 2300 && !here.ModTime().Equal(there.ModTime()) {
			t.Errorf("%s: %v, %v", name, there.ModTime(), err)
		}
		if _, err := ws.ReadFile(t.Context(), name, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := ws.ReadDir(t.Context(), ".", workspace.ListOptions{}); err != nil || len(list.Entries) != 5 {
		t.Errorf("a list of %d, %v", len(list.Entries), err)
	}
	t.Logf("%d times on this file system cannot be written", odd)
}

// TestABigFileNeedsLittleMemory moves a file both ways that is larger than what
// both sides may use for it.
func TestABigFileNeedsLittleMemory(t *testing.T) {
	const size = 256 << 20
	served, _ := newHost(t)
	d := dial(t, serve(t, served, remote.Options{}), "")
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	most := watchHeap(t)
	block := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	if _, err := ws.Write(t.Context(), "big", io.LimitReader(repeat(block), size), workspace.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	f, err := ws.Open(t.Context(), "big")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf, total := make([]byte, 64<<10), 0
	for {
		n, err := f.Read(buf)
		for i := range min(n, 16) {
			if buf[i] != block[(total+i)%16] {
				t.Fatalf("byte %d is %q", total+i, buf[i])
			}
		}
		total += n
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if total != size {
		t.Errorf("read %d bytes of %d", total, size)
	}
	if got := most(); got > 24<<20 {
		t.Errorf("the heap grew by %d MiB", got>>20)
	}
}

// repeat reads b for ever.
func repeat(b []byte) io.Reader { return &repeater{b: b} }

type repeater struct {
	b  []byte
	at int
}

func (r *repeater) Read(p []byte) (int, error) {
	n := copy(p, r.b[r.at:])
	r.at = (r.at + n) % len(r.b)
	return n, nil
}
