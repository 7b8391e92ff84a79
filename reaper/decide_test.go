package reaper_test

import (
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/reaper"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// table is a process table in which self and nobody else runs.
func table(pid int) reaper.Presence {
	if pid == self.PID {
		return reaper.Presence{Exists: true, Started: self.Started}
	}
	return reaper.Presence{}
}

// facts are those of a container of t.
func facts(t reaper.Tag) reaper.Facts {
	return reaper.Facts{Names: []string{"/" + reaper.Name(t.ID)}, Labels: t.Labels()}
}

func TestDecideOwner(t *testing.T) {
	t.Parallel()
	dead := func(o *reaper.Owner) { o.PID = 200 }
	for _, c := range []struct {
		name    string
		owner   func(*reaper.Owner)
		self    func(*reaper.Owner)
		process func(int) reaper.Presence
		want    reaper.Verdict
		reason  string
	}{
		{name: "this process", want: reaper.Alive, reason: "lives"},
		{name: "no such process", owner: dead, want: reaper.Orphan, reason: "process 200, is gone"},
		{
			name: "another process that lives", owner: func(o *reaper.Owner) { o.PID, o.Started = 200, "5" },
			process: func(int) reaper.Presence { return reaper.Presence{Exists: true, Started: "5"} },
			want:    reaper.Alive, reason: "process 200, lives",
		},
		{name: "pid reused", owner: func(o *reaper.Owner) { o.Started = "999" }, want: reaper.Orphan, reason: "another one now"},
		{
			name: "process that may not be looked at", owner: dead,
			process: func(int) reaper.Presence { return reaper.Presence{Exists: true} },
			want:    reaper.Unknown, reason: "may not be looked at",
		},
		{name: "another boot", owner: func(o *reaper.Owner) { o.Boot = "earlier" }, want: reaper.Orphan, reason: "before this machine was booted"},
		{
			name: "another boot and namespace", owner: func(o *reaper.Owner) { o.Boot, o.PIDNamespace = "earlier", "pid:[9]" },
			want: reaper.Orphan, reason: "before this machine was booted",
		},
		{
			name: "another boot, no machine id", owner: func(o *reaper.Owner) { o.Boot, o.Machine = "earlier", "" },
			self: func(o *reaper.Owner) { o.Machine = "" }, want: reaper.Unknown, reason: "no machine id",
		},
		{
			name: "this boot, no machine id, gone", owner: func(o *reaper.Owner) { o.PID, o.Machine = 200, "" },
			self: func(o *reaper.Owner) { o.Machine = "" }, want: reaper.Orphan, reason: "is gone",
		},
		{
			name: "another namespace", owner: func(o *reaper.Owner) { o.PID, o.PIDNamespace = 200, "pid:[9]" },
			want: reaper.Unknown, reason: "another PID namespace",
		},
		{name: "another host", owner: func(o *reaper.Owner) { o.PID, o.Host = 200, "else" }, want: reaper.Unknown, reason: `the host "else"`},
		{
			name: "another host and boot", owner: func(o *reaper.Owner) { o.Host, o.Boot = "else", "earlier" },
			want: reaper.Unknown, reason: `the host "else"`,
		},
		{
			name: "another machine of that name", owner: func(o *reaper.Owner) { o.Machine, o.Boot = "else", "earlier" },
			want: reaper.Unknown, reason: "another machine",
		},
		{name: "machine id lost", owner: dead, self: func(o *reaper.Owner) { o.Machine = "" }, want: reaper.Unknown, reason: "another machine"},
		{name: "no host", owner: func(o *reaper.Owner) { o.PID, o.Host = 200, "" }, self: func(o *reaper.Owner) { o.Host = "" }, want: reaper.Unknown, reason: "host"},
		{name: "no boot", owner: func(o *reaper.Owner) { o.PID, o.Boot = 200, "" }, want: reaper.Unknown, reason: "boot is not known"},
		{name: "own boot not known", owner: dead, self: func(o *reaper.Owner) { o.Boot = "" }, want: reaper.Unknown, reason: "boot is not known"},
		{
			name: "no namespace", owner: func(o *reaper.Owner) { o.PID, o.PIDNamespace = 200, "" },
			self: func(o *reaper.Owner) { o.PIDNamespace = "" }, want: reaper.Unknown, reason: "namespace",
		},
		{name: "no start time", owner: func(o *reaper.Owner) { o.PID, o.Started = 200, "" }, want: reaper.Unknown, reason: "was started is not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mine, its, process := self, tag(), c.process
			if c.owner != nil {
				c.owner(&its.Owner)
			}
			if c.self != nil {
				c.self(&mine)
			}
			if process == nil {
				process = table
			}
			got, verdict, reason := reaper.Decide(now, mine, process, facts(its))
			if verdict != c.want || !strings.Contains(reason, c.reason) {
				t.Errorf("%s: %s; want %s: …%s…", verdict, reason, c.want, c.reason)
			}
			if got != its {
				t.Errorf("tag %+v, want %+v", got, its)
			}
		})
	}
}

func TestDecideDetached(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		expires time.Time
		owner   func(*reaper.Owner)
		want    reaper.Verdict
	}{
		{name: "for ever", want: reaper.Alive},
		{name: "maker gone", owner: func(o *reaper.Owner) { o.PID = 200 }, want: reaper.Alive},
		{name: "maker of an earlier boot", owner: func(o *reaper.Owner) { o.Boot = "earlier" }, want: reaper.Alive},
		{name: "not yet", expires: now.Add(time.Second), want: reaper.Alive},
		{name: "this very moment", expires: now, want: reaper.Alive},
		{name: "expired", expires: now.Add(-time.Second), want: reaper.Orphan},
		{name: "expired, another host's", expires: now.Add(-time.Second), owner: func(o *reaper.Owner) { o.Host = "else" }, want: reaper.Orphan},
		{name: "far future", expires: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), want: reaper.Alive},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			its := tag()
			its.Detached, its.Expires = true, c.expires
			if c.owner != nil {
				c.owner(&its.Owner)
			}
			_, verdict, reason := reaper.Decide(now, self, table, facts(its))
			if verdict != c.want || !strings.Contains(reason, "detached") {
				t.Errorf("%s: %s; want %s", verdict, reason, c.want)
			}
		})
	}
	t.Run("a time to expire means nothing to a container with an owner", func(t *testing.T) {
		t.Parallel()
		its := tag()
		its.Expires = now.Add(-time.Hour)
		if _, verdict, reason := reaper.Decide(now, self, table, facts(its)); verdict != reaper.Alive {
			t.Errorf("%s: %s", verdict, reason)
		}
	})
}

func TestDecideForeign(t *testing.T) {
	t.Parallel()
	orphan := tag()
	orphan.Owner.PID = 200
	if _, verdict, reason := reaper.Decide(now, self, table, facts(orphan)); verdict != reaper.Orphan {
		t.Fatalf("the control is %s: %s", verdict, reason)
	}
	for _, c := range []struct {
		name   string
		change func(*reaper.Facts)
		want   reaper.Verdict
		reason string
	}{
		{"no labels", func(f *reaper.Facts) { f.Labels = nil }, reaper.Foreign, "wsctl.labels is missing"},
		{"the key with an empty value", func(f *reaper.Facts) { f.Labels = map[string]string{"wsctl.id": ""} }, reaper.Foreign, "wsctl.labels is missing"},
		{"partial", func(f *reaper.Facts) { delete(f.Labels, "wsctl.owner.started") }, reaper.Foreign, "wsctl.owner.started is missing"},
		{"newer", func(f *reaper.Facts) { f.Labels["wsctl.labels"] = "2" }, reaper.Foreign, "another version"},
		{"no name", func(f *reaper.Facts) { f.Names = nil }, reaper.Foreign, "its name is not"},
		{"another name", func(f *reaper.Facts) { f.Names = []string{"/db"} }, reaper.Foreign, "its name is not"},
		{"a longer name", func(f *reaper.Facts) { f.Names[0] += "-2" }, reaper.Foreign, "its name is not"},
		{"a link of that name", func(f *reaper.Facts) { f.Names = []string{"/db", "/web" + f.Names[0]} }, reaper.Foreign, "its name is not"},
		{"image with all our labels", func(f *reaper.Facts) { f.ImageLabels = f.Labels }, reaper.Foreign, "its image carries"},
		{"image with one of our keys", func(f *reaper.Facts) { f.ImageLabels = map[string]string{"wsctl.x": ""} }, reaper.Foreign, `"wsctl.x"`},
		{"image with other labels", func(f *reaper.Facts) { f.ImageLabels = map[string]string{"wsctlx": "1", "a": "wsctl."} }, reaper.Orphan, "is gone"},
		{"image gone", func(f *reaper.Facts) { f.ImageGone = true }, reaper.Unknown, "image is gone"},
		{"a second name", func(f *reaper.Facts) { f.Names = append([]string{"/web/alias"}, f.Names...) }, reaper.Orphan, "is gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := facts(orphan)
			c.change(&f)
			_, verdict, reason := reaper.Decide(now, self, table, f)
			if verdict != c.want || !strings.Contains(reason, c.reason) {
				t.Errorf("%s: %s; want %s: …%s…", verdict, reason, c.want, c.reason)
			}
		})
	}
}

// FuzzDecide changes one label of a living container of ours in whatever way:
// the verdict may never become that it is an orphan, but by an owner that is
// told to be another process.
func FuzzDecide(f *testing.F) {
	for key := range tag().Labels() {
		for _, value := range []string{
			"", "0", "-1", "true", "x", "9223372036854775808", "1e99", "2000-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
			strings.Repeat("9", 70000), "\x00", "\xff\xfe", "101",
		} {
			f.Add(key, value)
		}
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		its := tag()
		fs := reaper.Facts{Names: []string{"/" + reaper.Name(its.ID)}, Labels: with(its, key, value)}
		got, verdict, reason := reaper.Decide(now, self, table, fs)
		if reason == "" || len(reason) > 600 {
			t.Errorf("%q=%.80q: %s for the reason %q", key, value, verdict, reason)
		}
		switch key {
		case "wsctl.owner.boot", "wsctl.owner.pid", "wsctl.owner.started":
			// Another process by definition, as long as the label makes sense.
			if verdict == reaper.Orphan && got.Owner == self {
				t.Errorf("%q=%.80q: orphan although the owner is this process", key, value)
			}
		default:
			if verdict == reaper.Orphan {
				t.Errorf("%q=%.80q: orphan: %s", key, value, reason)
			}
		}
	})
}
