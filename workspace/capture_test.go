package workspace_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wsctl/wsctl/workspace"
)

// writes runs a command that writes chunks and returns its Output.
func writes(t testing.TB, limit int, chunks ...[]byte) *workspace.Output {
	t.Helper()
	d := newInprocess(map[string]program{"emit": func(p *goprocess) int {
		for _, c := range chunks {
			p.stdout.Write(c)
		}
		return 0
	}})
	out, err := open(t, d, workspace.Options{}).Exec(t.Context(), workspace.Command{Args: []string{"emit"}, MaxOutput: limit})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// model is what an Output keeps of a whole stream, written for clarity.
func model(all []byte, limit int) (kept []byte, dropped workspace.Dropped) {
	if len(all) <= limit {
		return all, workspace.Dropped{}
	}
	head := all[:limit-limit/2]
	tail := all[len(all)-limit/2:]
	// A character that the cut went through is left out whole.
	for n := 1; n <= 3 && n <= len(head); n++ {
		if b := head[len(head)-n:]; utf8.RuneStart(b[0]) {
			if !utf8.FullRune(b) {
				head = head[:len(head)-n]
			}
			break
		}
	}
	for n := 1; n <= 3 && n < len(tail) && !utf8.RuneStart(tail[0]); n++ {
		if utf8.RuneStart(tail[n]) {
			tail = tail[n:]
			break
		}
	}
	kept = append(bytes.Clone(head), tail...)
	return kept, workspace.Dropped{Bytes: int64(len(all) - len(kept)), Offset: len(head)}
}

func checkOutput(t *testing.T, out *workspace.Output, all []byte, limit int) {
	t.Helper()
	kept, dropped := model(all, limit)
	if !bytes.Equal(out.Stdout, kept) {
		t.Errorf("of %d bytes with limit %d it kept %d bytes %.80q, want %d bytes %.80q", len(all), limit, len(out.Stdout), out.Stdout, len(kept), kept)
	}
	if out.StdoutDropped != dropped {
		t.Errorf("dropped %+v, want %+v", out.StdoutDropped, dropped)
	}
	if out.Truncated != (dropped.Bytes > 0) {
		t.Errorf("Truncated is %v with %d bytes dropped", out.Truncated, dropped.Bytes)
	}
	if out.StderrDropped != (workspace.Dropped{}) || len(out.Stderr) != 0 {
		t.Errorf("an empty stderr became %q, dropped %+v", out.Stderr, out.StderrDropped)
	}
}

func TestOutputKeepsHeadAndTail(t *testing.T) {
	for _, c := range []struct {
		all   string
		limit int
		kept  string
		at    int
		gone  int64
	}{
		{"abcdef", 6, "abcdef", 0, 0},
		{"abcdefg", 6, "abcefg", 3, 1},
		{"abcdefg", 5, "abcfg", 3, 2},
		{"abc", 1, "a", 1, 2},
		{"abc", 2, "ac", 1, 1},
		{"ééééé", 5, "éé", 2, 6},          // both cuts go through a character
		{"x漢漢漢y", 6, "xy", 1, 9},          // three bytes a character
		{"a\xff\xfe\xfdz", 2, "az", 1, 3}, // not UTF-8: cut where it falls
	} {
		out := writes(t, c.limit, []byte(c.all))
		if string(out.Stdout) != c.kept || out.StdoutDropped != (workspace.Dropped{Bytes: c.gone, Offset: c.at * min(1, int(c.gone))}) {
			t.Errorf("%q limit %d: kept %q dropped %+v, want %q, %d bytes at %d", c.all, c.limit, out.Stdout, out.StdoutDropped, c.kept, c.gone, c.at)
		}
		checkOutput(t, out, []byte(c.all), c.limit)
	}
}

func TestOutputOfNothingKept(t *testing.T) {
	out := writes(t, workspace.NoOutput, []byte("abc"))
	if len(out.Stdout) != 0 || out.StdoutDropped.Bytes != 3 || !out.Truncated {
		t.Errorf("NoOutput kept %q, dropped %+v, truncated %v", out.Stdout, out.StdoutDropped, out.Truncated)
	}
	out = writes(t, workspace.NoOutput)
	if out.Truncated {
		t.Error("nothing written is called truncated")
	}
}

// A random stream in random pieces is kept as the model keeps the whole.
func TestOutputAgainstModel(t *testing.T) {
	const seed = 20260
	r := rand.New(rand.NewPCG(seed, 1))
	alphabet := []string{"a", "é", "漢", "😀", "\xff", "\x80", "\n"}
	for round := range 400 {
		var text strings.Builder
		for range r.IntN(300) {
			text.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		all := []byte(text.String())
		var chunks [][]byte
		for rest := all; len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			chunks, rest = append(chunks, rest[:n]), rest[n:]
		}
		limit := 1 + r.IntN(200)
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			checkOutput(t, writes(t, limit, chunks...), all, limit)
		})
	}
}

// The bound is one of memory: a long stream must not pass through whole.
func TestOutputMemoryIsBounded(t *testing.T) {
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	chunks := make([][]byte, 64)
	for i := range chunks {
		chunks[i] = chunk
	}
	var out *workspace.Output
	got := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			out = writes(t, 64<<10, chunks...)
		}
	}).AllocedBytesPerOp()
	if got > 1<<20 {
		t.Errorf("64 MiB with a limit of 64 KiB allocated %d bytes", got)
	}
	if len(out.Stdout) != 64<<10 || out.StdoutDropped.Bytes != 64<<20-64<<10 {
		t.Errorf("kept %d, dropped %+v", len(out.Stdout), out.StdoutDropped)
	}
}
