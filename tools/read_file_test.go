//go:build unix

package tools_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

func TestReadFileNumbersLines(t *testing.T) {
	b := newBench(t, tools.Options{})
	b.put("a.txt", "one\ntwo\nthree")
	r := b.call("read_file", args{"path": "a.txt"})
	if want := "a.txt: lines 1 to 3 of 3, to the end; line"; strings.HasPrefix(r.Text, want) {
		t.Errorf("got %q", r.Text)
	}
	if want := "1\tone\n2\ttwo\n3\tthree"; !strings.HasSuffix(r.Text, want) {
		t.Errorf("got %q, want %q at its end", r.Text, want)
	}
	got := b.ok("read_file", args{"path": "a.txt", "offset": 2, "limit": 1})
	if got["content"] != "two\n" || got["next_offset"] != 3.0 || got["total_lines"] != 3.0 || got["remaining_bytes"] != 5.0 {
		t.Errorf("got %v", got)
	}
	if r := b.call("read_file", args{"path": "a.txt", "offset": 2, "limit": 1}); !strings.Contains(r.Text, "1 line remaining: go on with offset 3") {
		t.Errorf("got %q", r.Text)
	}
}

func TestReadFileRefusesBadNumbers(t *testing.T) {
	b := newBench(t, tools.Options{})
	b.put("a.txt", "one\ntwo\n")
	b.put("empty", "")
	for _, c := range []struct{ args, field string }{
		{`{"path":"a.txt","offset":0}`, "offset: must be at least 1, not 0"},
		{`{"path":"a.txt","offset":-1}`, "offset: must be at least 1, not -1"},
		{`{"path":"a.txt","limit":0}`, "limit: "},
		{`{"path":"a.txt","limit":-5}`, "limit: "},
		{`{"path":"a.txt","limit":1e12}`, "limit: must be at most 100000, not 1e12"},
		{`{"path":"a.txt","limit":1.5}`, "limit: must be a whole number"},
		{`{"path":"a.txt","limit":1e400}`, "limit: "},
		{`{"path":"a.txt","byte_offset":-1}`, "byte_offset: "},
		{`{"path":"a.txt","byte_limit":0}`, "byte_limit: "},
		{`{"path":"a.txt","byte_limit":10,"limit":10}`, "one kind"},
		{`{"path":"a.txt","offset":3}`, "past the end: the file has 2 lines"},
		{`{"path":"a.txt","byte_offset":8}`, "past the end: the file has 8 bytes"},
	} {
		b.fails("read_file", c.args, workspace.ErrInvalidArgument, c.field)
	}
	// A whole number may be written in other ways.
	if got := b.ok("read_file", `{"path":"a.txt","limit":1.0,"offset":2e0}`); got["content"] != "two\n" {
		t.Errorf("got %v", got)
	}
	if r := b.call("read_file", args{"path": "empty"}); !strings.Contains(r.Text, "empty (0 bytes)") {
		t.Errorf("got %q", r.Text)
	}
}

// page reads a whole file by the offsets that each result names.
func (b *bench) page(path string, first args) []byte {
	b.Helper()
	var all []byte
	next := args{"path": path}
	for k, v := range first {
		next[k] = v
	}
	for calls := 0; ; calls++ {
		if calls > 2000 {
			b.Fatal("paging does not end")
		}
		r := b.call("read_file", next)
		if r.Path != "" {
			b.Fatal("a page was itself too long")
		}
		got := b.ok("read_file", next)
		chunk, _ := got["content"].(string)
		if exact, ok := got["base64"].(string); ok {
			raw, err := base64.StdEncoding.DecodeString(exact)
			if err != nil {
				b.Fatal(err)
			}
			chunk = string(raw)
		}
		if int(got["end_byte"].(float64)) <= int(got["first_byte"].(float64)) {
			b.Fatalf("a page shows nothing: %v", got)
		}
		if len(all) < int(got["first_byte"].(float64)) {
			b.Fatalf("bytes %d to %v are missing", len(all), got["first_byte"])
		}
		all = append(all[:int(got["first_byte"].(float64))], chunk...)
		switch {
		case got["next_offset"] != nil:
			next = args{"path": path, "offset": got["next_offset"]}
		case got["next_byte_offset"] != nil:
			next = args{"path": path, "byte_offset": got["next_byte_offset"]}
		default:
			return all
		}
	}
}

func TestEveryByteIsReachedByPaging(t *testing.T) {
	b := newBench(t, tools.Options{})
	var numbers strings.Builder
	for i := range 30000 {
		fmt.Fprintln(&numbers, i)
	}
	for name, content := range map[string]string{
		"lines":         numbers.String(),
		"short lines":   strings.Repeat("\n", 9000),
		"one line":      strings.Repeat("0123456789", 50_000),
		"wide one line": strings.Repeat("né€😀", 30_000),
		"carriage":      strings.Repeat("progress 10%\r", 20_000),
		"latin-1":       strings.Repeat("caf\xe9\n", 3000) + strings.Repeat("\xff", 90_000),
		"control":       strings.Repeat("\x1b[0m", 40_000),
		"long then":     strings.Repeat("x", 200_000) + "\nshort\n",
	} {
		b.put("f", content)
		first := args{}
		if strings.Contains(name, "latin") {
			first = args{"byte_offset": 0}
		}
		if got := string(b.page("f", first)); got != content {
			t.Errorf("%s: %d bytes came back of %d, or others", name, len(got), len(content))
		}
	}
	binary := "\x7fELF" + strings.Repeat("\x00\x01\xfe\xff", 20_000)
	b.put("f", binary)
	if r := b.call("read_file", args{"path": "f"}); !strings.Contains(r.Text, "binary file") || len(r.Text) > 300 {
		t.Errorf("got %q", r.Text)
	}
	if got := string(b.page("f", args{"byte_offset": 0})); got != binary {
		t.Error("binary: other bytes came back")
	}
}

func TestReadFileSaysWhatItLeavesOut(t *testing.T) {
	b := newBench(t, tools.Options{})
	b.put("bom", "\xef\xbb\xbfa\r\nb\r\n")
	got := b.ok("read_file", args{"path": "bom"})
	if got["bom"] != true || got["line_endings"] != "crlf" || got["content"] != "a\r\nb\r\n" {
		t.Errorf("got %v", got)
	}
	b.put("mixed", "a\r\nb\n")
	if got := b.ok("read_file", args{"path": "mixed"}); got["line_endings"] != "mixed" {
		t.Errorf("got %v", got)
	}
	b.put("latin", "# caf\xe9\nna\xefve\n")
	got = b.ok("read_file", args{"path": "latin"})
	if got["replaced"] != 2.0 || got["content"] != "# caf\uFFFD\nna\uFFFDve\n" {
		t.Errorf("got %v", got)
	}
	if r := b.call("read_file", args{"path": "latin"}); !strings.Contains(r.Text, "2 bytes are not UTF-8") {
		t.Errorf("got %q", r.Text)
	}
}

func TestReadFileShowsImages(t *testing.T) {
	b := newBench(t, tools.Options{})
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00pixel", 100)
	b.put("a.png", png)
	r := b.call("read_file", args{"path": "a.png"})
	if len(r.Images) != 1 || r.Images[0].MIME != "image/png" || string(r.Images[0].Data) != png {
		t.Errorf("got %+v", r)
	}
	// A name alone makes no image.
	b.put("b.png", "text\n")
	if got := b.ok("read_file", args{"path": "b.png"}); got["kind"] != "text" {
		t.Errorf("got %v", got)
	}
}
