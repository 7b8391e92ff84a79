package reaper_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wsctl/wsctl/reaper"
)

// self is the process that decides in these tests.
var self = reaper.Owner{
	Host: "host", Machine: "machine", Boot: "boot", PIDNamespace: "pid:[1] time:[2]", PID: 100, Started: "1000",
}

// tag is that of a container of self's.
func tag() reaper.Tag {
	return reaper.Tag{ID: "0123456789abcdef0123", Root: "/home/me/proj", Workspace: "ws1", Version: "v1.2.3", Owner: self}
}

// with returns the labels of a tag, one of them set, or dropped when value is
// absent.
func with(t reaper.Tag, key, value string) map[string]string {
	labels := t.Labels()
	if value == absent {
		delete(labels, key)
	} else {
		labels[key] = value
	}
	return labels
}

const absent = "\x00absent"

func TestLabelsComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[!-~][ -~é]{0,40}`)
		want := reaper.Tag{
			ID:        reaper.NewID(),
			Root:      "/" + string(rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "root")),
			Workspace: text.Draw(t, "workspace"),
			Version:   text.Draw(t, "version"),
			Detached:  rapid.Bool().Draw(t, "detached"),
			Owner: reaper.Owner{
				Host: text.Draw(t, "host"), Machine: text.Draw(t, "machine"), Boot: text.Draw(t, "boot"),
				PIDNamespace: text.Draw(t, "pidns"), PID: rapid.IntRange(1, 1<<22).Draw(t, "pid"), Started: text.Draw(t, "started"),
			},
		}
		if rapid.Bool().Draw(t, "expires") {
			want.Expires = time.Unix(rapid.Int64Range(0, 1<<37).Draw(t, "at"), 0).UTC()
		}
		labels := want.Labels()
		for k, v := range labels {
			if !strings.HasPrefix(k, reaper.Prefix) {
				t.Fatalf("label %q does not begin with %q", k, reaper.Prefix)
			}
			for i := range len(v) {
				if v[i] < ' ' || v[i] == 0x7f {
					t.Fatalf("label %s = %q holds a control character", k, v)
				}
			}
		}
		got, err := reaper.ParseTag(labels)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestLabelsOfOthersDoNotMatter(t *testing.T) {
	t.Parallel()
	labels := tag().Labels()
	labels["org.testcontainers"] = "true"
	labels["wsctl-test.process"] = "1"
	if _, err := reaper.ParseTag(labels); err != nil {
		t.Fatal(err)
	}
}

func TestParseTagRefuses(t *testing.T) {
	t.Parallel()
	var empty string
	for _, c := range []struct{ key, value string }{
		{"wsctl.labels", "2"},
		{"wsctl.labels", empty},
		{"wsctl.id", empty},
		{"wsctl.id", "ABC"},
		{"wsctl.id", "a/b"},
		{"wsctl.id", "../x"},
		{"wsctl.id", strings.Repeat("a", 49)},
		{"wsctl.root", empty},
		{"wsctl.root", "/a b"},
		{"wsctl.root", "/%"},
		{"wsctl.root", "/%4"},
		{"wsctl.root", "/%zz"},
		{"wsctl.root", "/%41"},
		{"wsctl.root", "/%c3"},
		{"wsctl.root", "/é"},
		{"wsctl.root", strings.Repeat("/", 3*4096+1)},
		{"wsctl.detached", empty},
		{"wsctl.detached", "1"},
		{"wsctl.detached", "True"},
		{"wsctl.expires", "soon"},
		{"wsctl.expires", "99999-01-01T00:00:00Z"},
		{"wsctl.expires", "2026-01-01T00:00:00+01:00"},
		{"wsctl.expires", "2026-01-01T00:00:00.5Z"},
		{"wsctl.expires", "-1"},
		{"wsctl.expires", "0001-01-01T00:00:00Z"},
		{"wsctl.owner.pid", empty},
		{"wsctl.owner.pid", "0"},
		{"wsctl.owner.pid", "-1"},
		{"wsctl.owner.pid", "+1"},
		{"wsctl.owner.pid", "01"},
		{"wsctl.owner.pid", "1e3"},
		{"wsctl.owner.pid", "4194305"},
		{"wsctl.owner.pid", "99999999999999999999"},
		{"wsctl.owner.pid", "x"},
		{"wsctl.owner.host", "a\nb"},
		{"wsctl.owner.host", "\x1b]0;x\x07"},
		{"wsctl.owner.host", strings.Repeat("h", 1025)},
		{"wsctl.version", "v1\x7f"},
		{"wsctl.workspace", "a\x00b"},
	} {
		if got, err := reaper.ParseTag(with(tag(), c.key, c.value)); err == nil {
			t.Errorf("%s=%q is taken: %+v", c.key, c.value, got)
		} else if len(err.Error()) > 500 {
			t.Errorf("%s=%.20q…: the error has %d bytes", c.key, c.value, len(err.Error()))
		}
	}
	for key := range tag().Labels() {
		if _, err := reaper.ParseTag(with(tag(), key, absent)); err == nil {
			t.Errorf("labels without %s are taken", key)
		}
	}
}

// FuzzParseTag holds every label to one rule: what is taken is what Labels
// writes.
func FuzzParseTag(f *testing.F) {
	for key, value := range tag().Labels() {
		f.Add(key, value)
		f.Add(key, strings.Repeat(value+"9", 5000))
		f.Add(key, "-"+value)
	}
	f.Add("wsctl.expires", "2999-01-01T00:00:00Z")
	f.Fuzz(func(t *testing.T, key, value string) {
		labels := with(tag(), key, value)
		got, err := reaper.ParseTag(labels)
		if err != nil {
			return
		}
		want := got.Labels()
		if _, ours := want[key]; !ours {
			delete(labels, key)
		}
		if !maps.Equal(want, labels) {
			t.Errorf("%q=%q is read as %+v", key, value, got)
		}
	})
}

func TestNewIDIsAnID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		id := reaper.NewID()
		if seen[id] {
			t.Fatalf("%s twice", id)
		}
		seen[id] = true
		labels := with(tag(), "wsctl.id", id)
		if _, err := reaper.ParseTag(labels); err != nil {
			t.Fatal(err)
		}
	}
}
