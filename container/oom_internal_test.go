//go:build unix

package container

import "testing"

func TestParseOOMKills(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n":                3, // v1
		"low 0\nhigh 0\nmax 21\noom 2\noom_kill 1\noom_group_kill 0\n": 1, // v2
		"": 0, "oom_kill\n": 0, "oom_kill -1\n": 0, "oom_kill x\n": 0, "oom_killer 9\n": 0,
	} {
		if got := parseOOMKills([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
