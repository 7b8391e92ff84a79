//go:build unix

package tools_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/wsctl/wsctl/tools"
)

// naiveMatch is where old, found at i in text, ends; -1: it is not there. The
// rule, byte for byte: a break in old is LF or CRLF in text, when old has no CR.
func naiveMatch(text, old string, i int) int {
	loose := !strings.Contains(old, "\r")
	if loose && old[0] == '\n' && i > 0 && text[i] == '\n' && text[i-1] == '\r' {
		return -1
	}
	for _, c := range []byte(old) {
		if loose && c == '\n' && strings.HasPrefix(text[i:], "\r\n") {
			i++
		}
		if i >= len(text) || text[i] != c {
			return -1
		}
		i++
	}
	return i
}

// naiveNew is what takes the place of matched in text.
func naiveNew(text, matched, old, new string) string {
	if strings.ContainsAny(old+new, "\r") {
		return new
	}
	var breaks []string
	for i, c := range []byte(matched) {
		switch {
		case c == '\n' && i > 0 && matched[i-1] == '\r':
			breaks = append(breaks, "\r\n")
		case c == '\n':
			breaks = append(breaks, "\n")
		}
	}
	if len(breaks) == 0 {
		breaks = []string{"\n"}
		if n := strings.Count(text, "\n"); n > 0 && n == strings.Count(text, "\r\n") {
			breaks[0] = "\r\n"
		}
	}
	parts := strings.Split(new, "\n")
	out := parts[0]
	for i, part := range parts[1:] {
		out += breaks[min(i, len(breaks)-1)] + part
	}
	return out
}

type naiveEdit struct {
	Old string `json:"old_string"`
	New string `json:"new_string"`
	All bool   `json:"replace_all,omitempty"`
}

// naiveApply is the slow and obvious edit.
func naiveApply(text string, edits []naiveEdit) (string, bool) {
	for _, e := range edits {
		if e.Old == "" || e.Old == e.New {
			return "", false
		}
		var starts []int
		for i := range len(text) {
			if naiveMatch(text, e.Old, i) >= 0 {
				starts = append(starts, i)
			}
		}
		if len(starts) == 0 || len(starts) > 1 && !e.All {
			return "", false
		}
		out, at := "", 0
		for _, i := range starts {
			if i < at {
				continue
			}
			end := naiveMatch(text, e.Old, i)
			out += text[at:i] + naiveNew(text, text[i:end], e.Old, e.New)
			at = end
		}
		text = out + text[at:]
	}
	return text, true
}

// Every edit does what the naive one does, or fails and leaves the file as it
// was; and its diff, applied as a patch, does the same again.
func TestEditAgainstANaiveModel(t *testing.T) {
	b := newBench(t, tools.Options{})
	piece := rapid.SampledFrom([]string{"a", "b", "aa", "\n", "\r\n", "\r", " ", "é", "\xff", "a\nb", "b\r\na\r\n"})
	text := func(least, most int, pieces *rapid.Generator[string]) *rapid.Generator[string] {
		return rapid.Map(rapid.SliceOfN(pieces, least, most), func(s []string) string { return strings.Join(s, "") })
	}
	valid := rapid.SampledFrom([]string{"a", "b", "aa", "\n", "\r\n", " ", "é", "a\nb", "$1"})
	edits := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) naiveEdit {
		return naiveEdit{text(0, 3, valid).Draw(t, "old"), text(0, 4, valid).Draw(t, "new"), rapid.Bool().Draw(t, "all")}
	}), 1, 4)
	done := 0
	rapid.Check(t, func(rt *rapid.T) {
		before := text(0, 30, piece).Draw(rt, "text")
		list := edits.Draw(rt, "edits")
		b.put("f", before)
		r := b.call("edit_file", args{"path": "f", "edits": list})
		got := b.get("f")
		want, ok := naiveApply(before, list)
		if !ok || want == before {
			if !r.IsError || got != before {
				rt.Fatalf("%q %+v: must fail, and is %q: %s", before, list, got, r.Text)
			}
			return
		}
		if r.IsError || got != want {
			rt.Fatalf("%q %+v: %q, want %q: %s", before, list, got, want, r.Text)
		}
		done++
		if !utf8.ValidString(before) {
			return
		}
		diff := structuredOf(t, r)["diff"]
		b.put("f", before)
		if r := b.call("edit_file", args{"path": "f", "patch": diff}); r.IsError || b.get("f") != want {
			rt.Fatalf("%q %+v: the diff makes %q of it, want %q: %s\n%s", before, list, b.get("f"), want, r.Text, diff)
		}
	})
	if done == 0 {
		t.Error("no edit was made")
	}
}
