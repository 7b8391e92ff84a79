//go:build unix

package mcpserver_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/tools"
)

func (w *wire) read(id int, uri string) message {
	w.Helper()
	raw, err := json.Marshal(uri)
	if err != nil {
		w.Fatal(err)
	}
	w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/read","params":{"uri":%s}}`, id, raw))
	return w.answer(id)
}

func TestFilesAreResources(t *testing.T) {
	set, dir := newSet(t, tools.Options{})
	put(t, dir, "src/a b.go", "package a\n")
	put(t, dir, "page.html", "<script>alert(1)</script>")
	put(t, dir, "latin", "caf\xe9")
	put(t, dir, "empty", "")
	put(t, dir, "100%25", "percent")
	w := newWire(t, set)
	w.initialize("2025-06-18", "{}")
	for i, c := range []struct{ uri, mime, text, blob string }{
		{"wsctl://file/src/a%20b.go", "text/plain", "package a\n", ""},
		{"wsctl://file/page.html", "text/plain", "<script>alert(1)</script>", ""},
		{"wsctl://file/latin", "application/octet-stream", "", "caf\xe9"},
		{"wsctl://file/empty", "text/plain", "", ""},
		{"wsctl://file/100%2525", "text/plain", "percent", ""},
	} {
		m := w.read(i, c.uri)
		var r struct {
			Contents []struct {
				URI, MIMEType string
				Text, Blob    *string
			}
		}
		if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || len(r.Contents) != 1 {
			t.Errorf("%s: got %+v, %s", c.uri, m.Error, m.Result)
			continue
		}
		got := r.Contents[0]
		if got.URI != c.uri || got.MIMEType != c.mime || (got.Text == nil) == (got.Blob == nil) {
			t.Errorf("%s: got %s", c.uri, m.Result)
		}
		if got.Text != nil && *got.Text != c.text {
			t.Errorf("%s: got %q", c.uri, *got.Text)
		}
		if got.Blob != nil && *got.Blob != base64.StdEncoding.EncodeToString([]byte(c.blob)) {
			t.Errorf("%s: got %q", c.uri, *got.Blob)
		}
	}
}

// The client's roots widen nothing, and no spelling leads out or has two
// meanings.
func TestOtherURIsAreRefused(t *testing.T) {
	set, dir := newSet(t, tools.Options{})
	put(t, dir, "a.txt", "one\n")
	put(t, dir, "d/b.txt", "two\n")
	w := newWire(t, set)
	w.initialize("2025-06-18", `{"roots":{"listChanged":true}}`)
	for i, uri := range []string{
		"file:///etc/passwd", "file://" + dir + "/a.txt", "http://localhost/a.txt", "a.txt", "/etc/passwd", "",
		"wsctl:a.txt", "wsctl:///a.txt", "wsctl://file", "wsctl://file/", "wsctl://other/a.txt", "WSCTL://file/a.txt",
		"wsctl://FILE/a.txt", "wsctl://file:80/a.txt", "wsctl://user@file/a.txt", "wsctl://file.example/a.txt",
		"wsctl://file//etc/passwd", "wsctl://file/../etc/passwd", "wsctl://file/d/../a.txt", "wsctl://file/./a.txt",
		"wsctl://file/d//b.txt", "wsctl://file/d/", "wsctl://file/%2e%2e/etc/passwd", "wsctl://file/..%2fetc/passwd",
		"wsctl://file/d%2fb.txt", "wsctl://file/%252e%252e/etc/passwd", "wsctl://file/..%5cetc", "wsctl://file/a.txt%00",
		"wsctl://file/a.txt?x=1", "wsctl://file/a.txt#x", "wsctl://file/%zz", "wsctl://file/%", "wsctl://file/a.txt;x",
		"wsctl://file/.wsctl/id", "wsctl://file/.WSCTL/id", "wsctl://file/missing", "wsctl://file/d",
		"wsctl://file/" + strings.Repeat("x", 100_000), "wsctl://file/a\ufffd", "wsctl://file/a.txt ", " wsctl://file/a.txt",
	} {
		if m := w.read(i, uri); m.Error == nil {
			t.Errorf("%.80q: got %s", uri, m.Result)
		} else if len(m.Error.Message) > 5000 && len(uri) < 1000 {
			t.Errorf("%.80q: the error has %d bytes", uri, len(m.Error.Message))
		}
		raw, err := json.Marshal(uri)
		if err != nil {
			t.Fatal(err)
		}
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":%s}}`, 1000+i, raw))
		if m := w.answer(1000 + i); m.Error == nil {
			t.Errorf("%.80q: subscribed", uri)
		}
	}
	if m := w.read(9999, "wsctl://file/a.txt"); m.Error != nil {
		t.Errorf("a good one: got %+v", m.Error)
	}
}

func TestSubscribersHearOfChanges(t *testing.T) {
	set, dir := newSet(t, tools.Options{})
	put(t, dir, "a.txt", "one\n")
	put(t, dir, "b.txt", "one\n")
	w := newWire(t, set)
	w.initialize("2025-06-18", "{}")
	w.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"wsctl://file/a.txt"}}`)
	if m := w.answer(1); m.Error != nil {
		t.Fatalf("got %+v", m.Error)
	}
	notice := func() {
		t.Helper()
		for {
			if m := w.next(); m.Method == "notifications/resources/updated" {
				if !strings.Contains(string(m.Params), `"wsctl://file/a.txt"`) {
					t.Errorf("got %s", m.Params)
				}
				return
			}
		}
	}
	// By a tool, by a command, and by somebody else.
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"write_file","arguments":{"path":"a.txt","content":"two"}}}`)
	notice()
	w.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"echo three >>a.txt"}}}`)
	notice()
	put(t, dir, "a.txt", "somebody else's")
	notice()
	// Other files, and after the end of the subscription.
	w.send(`{"jsonrpc":"2.0","id":4,"method":"resources/unsubscribe","params":{"uri":"wsctl://file/a.txt"}}`)
	w.answer(4)
	w.call(5, "write_file", `{"path":"a.txt","content":"four"}`)
	w.call(6, "write_file", `{"path":"b.txt","content":"four"}`)
	select {
	case line := <-w.lines:
		t.Errorf("got %s", line)
	case <-time.After(1500 * time.Millisecond):
	}
}
