package wrapper_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/wrapper"
)

const token = "0123456789abcdef0123456789abcdef"

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// naive is the splitter written the slow way, over the whole stream at once.
func naive(all []byte) (preamble, output []byte, bodies []string) {
	mark := []byte("\x1e" + token + " ")
	for len(all) > 0 {
		if bytes.HasPrefix(all, mark) {
			rest := all[len(mark):]
			end := bytes.IndexByte(rest, '\n')
			switch {
			case end >= 0 && end <= wrapper.MaxBody:
				bodies = append(bodies, string(rest[:end]))
				all = rest[end+1:]
				continue
			case len(rest) > wrapper.MaxBody:
				bodies = append(bodies, string(rest[:wrapper.MaxBody]))
				all = rest[min(len(rest), wrapper.MaxBody):]
				continue
			}
		}
		if bodies == nil {
			preamble = append(preamble, all[0])
		} else {
			output = append(output, all[0])
		}
		all = all[1:]
	}
	return preamble, output, bodies
}

// split feeds the stream in pieces of random sizes.
func split(t testing.TB, all []byte, seed uint64) (preamble, output []byte, bodies []string) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	var out bytes.Buffer
	s := wrapper.NewSplitter(&out, func(b []byte) error { bodies = append(bodies, string(b)); return nil })
	s.SetToken(token)
	for len(all) > 0 {
		n := 1 + r.IntN(min(len(all), 1+r.IntN(80)))
		if w, err := s.Write(all[:n]); w != n || err != nil {
			t.Fatalf("wrote %d of %d: %v", w, n, err)
		}
		all = all[n:]
	}
	check(t, s.Flush())
	return s.Preamble(), out.Bytes(), bodies
}

func FuzzSplitter(f *testing.F) {
	m := string(wrapper.AppendMarker(nil, token, "start 5"))
	for _, seed := range []string{
		"", "plain", m, "before" + m + "after", m + m + "x\x1e", m + "\x1e" + token, m + "\x1e\x1e" + token + " exit 1\n",
		m + "\x1e" + token[:31] + "x exit 1\n", m + strings.Repeat("\x1e", 99) + m, m + "\x1e" + token + " " + strings.Repeat("z", 1100) + "\nq",
		m + "\x1e" + token + " " + strings.Repeat("z", wrapper.MaxBody) + "\nq" + m,
	} {
		f.Add([]byte(seed), uint64(7))
	}
	f.Fuzz(func(t *testing.T, all []byte, seed uint64) {
		// T stands for a whole mark, which a fuzzer would hardly find by itself.
		all = bytes.ReplaceAll(all, []byte("T"), []byte("\x1e"+token+" "))
		if len(all) > 4000 {
			return // the preamble has a bound of its own
		}
		p, o, b := split(t, all, seed)
		np, no, nb := naive(all)
		if !bytes.Equal(p, np) || !bytes.Equal(o, no) || strings.Join(b, "|") != strings.Join(nb, "|") {
			t.Errorf("stream %q:\n got %q %q %q\nwant %q %q %q", all, p, o, b, np, no, nb)
		}
	})
}

func TestSplitterSequences(t *testing.T) {
	parts := []string{"\x1e", token, " ", "\n", "text", "exit 0", "\x1e" + token + " ", token[:9], "\x1e" + token, strings.Repeat("y", 1500)}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 3000 {
		all := wrapper.AppendMarker(nil, token, "start 2")
		for range r.IntN(12) {
			all = append(all, parts[r.IntN(len(parts))]...)
		}
		p, o, b := split(t, all, uint64(i))
		np, no, nb := naive(all)
		if !bytes.Equal(p, np) || !bytes.Equal(o, no) || strings.Join(b, "|") != strings.Join(nb, "|") {
			t.Fatalf("stream %q:\n got %q %q\nwant %q %q", all, o, b, no, nb)
		}
	}
}

func TestSplitterHoldsOnlyWhatMayBeAMarker(t *testing.T) {
	var out bytes.Buffer
	s := wrapper.NewSplitter(&out, func([]byte) error { return nil })
	s.SetToken(token)
	for _, c := range []struct{ in, out string }{
		{"\x1e" + token + " start 5\n", ""},
		{"abc", "abc"},
		{"d\x1e", "abcd"},
		{token[:5], "abcd"},
		{"z", "abcd\x1e" + token[:5] + "z"},
	} {
		_, err := io.WriteString(s, c.in)
		check(t, err)
		if out.String() != c.out {
			t.Errorf("after %q: got %q, want %q", c.in, out.String(), c.out)
		}
	}
}

func TestSplitterTellsErrors(t *testing.T) {
	broken := errors.New("broken")
	s := wrapper.NewSplitter(io.Discard, func([]byte) error { return broken })
	s.SetToken(token)
	if _, err := s.Write(wrapper.AppendMarker(nil, token, "x")); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestPreambleIsBounded(t *testing.T) {
	s := wrapper.NewSplitter(io.Discard, func([]byte) error { return nil })
	s.SetToken(token)
	for range 100 {
		_, err := s.Write(bytes.Repeat([]byte("engine "), 1000))
		check(t, err)
	}
	if n := len(s.Preamble()); n != 4<<10 {
		t.Errorf("%d bytes", n)
	}
}

func TestReaderRefusesWhatMakesNoSense(t *testing.T) {
	for _, body := range []string{
		"group -1", "group 0", "group 1", "group 1099511627776", "group 7;x", "group", "group 007", "group 5 6", "start", "start 7", "exit 0", "exit 256",
		"exit -1", "exit", "nodir x", "", "other",
	} {
		r := wrapper.NewReader(token, nil, nil)
		if _, err := r.Stdout().Write(wrapper.AppendMarker(nil, token, body)); err == nil {
			t.Errorf("%q is taken", body)
		}
		if _, err := r.Status(); err == nil || r.Group() != 0 {
			t.Errorf("%q: group %d, %v", body, r.Group(), err)
		}
	}
}

func TestReaderNeedsBothStreams(t *testing.T) {
	r := wrapper.NewReader(token, nil, nil)
	for _, body := range []string{"group 9", "start", "exit 3"} {
		_, err := r.Stdout().Write(wrapper.AppendMarker(nil, token, body))
		check(t, err)
	}
	if _, err := r.Status(); err == nil {
		t.Error("a status from one stream")
	}
	for _, body := range []string{"group 9", "start", "exit 3"} {
		_, err := r.Stderr().Write(wrapper.AppendMarker(nil, token, body))
		check(t, err)
	}
	if code, err := r.Status(); code != 3 || err != nil {
		t.Errorf("got %d, %v", code, err)
	}
}

func TestScriptRefusals(t *testing.T) {
	for _, s := range []wrapper.Script{
		{Shell: "a\x00b"},
		{Args: []string{"a", "\x00"}},
		{Shell: "x", Env: []string{"A=\x00"}},
		{Shell: "x", Env: []string{"A"}},
		{Shell: "x", Env: []string{"=x"}},
		{Shell: "x", Env: []string{"A-B=x"}},
		{Shell: "x", Env: []string{"1A=x"}},
		{Shell: "x", Env: []string{"A;touch x=1"}},
		{Shell: "x", Env: []string{"BASH_FUNC_x%%=() { :; }"}},
		{Shell: "x", Env: []string{"UID=1"}},
		{Shell: "x", Unset: []string{"A B"}},
		{Shell: "x", Unset: []string{""}},
	} {
		if text, err := s.Text(); err == nil {
			t.Errorf("%+v gives %q", s, text)
		}
	}
	for _, dir := range []string{"", "relative", "/a\x00b"} {
		if in, err := wrapper.Input(token, dir, nil); err == nil {
			t.Errorf("the directory %q gives %q", dir, in)
		}
	}
}

func BenchmarkSplitter(b *testing.B) {
	chunk := make([]byte, 32<<10)
	for i := range chunk {
		chunk[i] = byte(rand.Uint32())
	}
	for name, data := range map[string][]byte{"random": chunk, "text": bytes.Repeat([]byte("y\n"), 16<<10)} {
		b.Run(name, func(b *testing.B) {
			s := wrapper.NewSplitter(io.Discard, func([]byte) error { return nil })
			s.SetToken(token)
			_, err := s.Write(wrapper.AppendMarker(nil, token, "start 2"))
			check(b, err)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				_, err := s.Write(data)
				check(b, err)
			}
		})
	}
}
