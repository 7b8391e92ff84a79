//go:build unix

package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

func TestResourcesAreFilesThatActInNoViewer(t *testing.T) {
	b := newBench(t, tools.Options{})
	for name, c := range map[string]struct{ content, mime string }{
		"page.html": {"<html><script>alert(1)</script>", "text/plain"},
		"icon.svg":  {`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`, "text/plain"},
		"a.png":     {"\x89PNG\r\n\x1a\n\x00", "image/png"},
		"latin":     {"caf\xe9\n", "application/octet-stream"},
		"nul":       {"a\x00b", "application/octet-stream"},
		"empty":     {"", "text/plain"},
	} {
		b.put(name, c.content)
		got, err := b.set.ReadResource(b.Context(), name)
		if err != nil || got.MIME != c.mime || string(got.Data) != c.content {
			t.Errorf("%s: got %q, %q, %v", name, got.MIME, got.Data, err)
		}
	}
}

func TestResourcesObeyWhatReadFileObeys(t *testing.T) {
	var events []tools.Event
	b := newBench(t, tools.Options{
		RequireApproval: func(name string, args json.RawMessage) bool {
			return name == "read_file" && bytes.Contains(args, []byte("secret"))
		},
		Ask:   func(context.Context, tools.Question) (bool, error) { t.Error("somebody was asked"); return true, nil },
		Audit: func(e tools.Event) { events = append(events, e) },
	})
	b.put("secret", "x")
	b.put("open", "x")
	for path, code := range map[string]workspace.Code{
		"secret": workspace.ErrDenied, "open": "", "missing": workspace.ErrNotFound, "../x": workspace.ErrOutside,
		".wsctl/id": workspace.ErrInvalidPath, "a\xff": workspace.ErrInvalidPath, ".": workspace.ErrNotFile,
	} {
		events = nil
		_, err := b.set.ReadResource(b.Context(), path)
		if workspace.CodeOf(err) != code {
			t.Errorf("%q: got %v, want %s", path, err, code)
		}
		if n := len(events); n == 0 || events[n-1].Kind != tools.EventCall || events[n-1].Code != code {
			t.Errorf("%q: the audit was told %+v", path, events)
		}
	}
	b.put("large", strings.Repeat("x", tools.MaxResource+1))
	if _, err := b.set.ReadResource(b.Context(), "large"); workspace.CodeOf(err) != workspace.ErrTooLarge {
		t.Errorf("got %v", err)
	}
	other := newSet(t, b.ws, tools.Options{Tools: []string{"write_file"}})
	if _, err := other.ReadResource(b.Context(), "open"); workspace.CodeOf(err) != workspace.ErrDenied {
		t.Errorf("without read_file: got %v", err)
	}
}

func TestResourceVersionChangesWithTheFile(t *testing.T) {
	b := newBench(t, tools.Options{})
	b.put("a", "1")
	first := b.set.ResourceVersion(b.Context(), "a")
	b.put("a", "22")
	second := b.set.ResourceVersion(b.Context(), "a")
	if err := os.Remove(filepath.Join(b.dir, "a")); err != nil {
		t.Fatal(err)
	}
	if first == "" || second == "" || first == second || b.set.ResourceVersion(b.Context(), "a") != "" {
		t.Errorf("got %q, then %q", first, second)
	}
}
