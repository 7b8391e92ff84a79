package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/workspace"
)

var own = environment{"CANARY=secret", "EMPTY=", "A=1", "A=2", "PATH=/usr/bin", "HOME=/home/me", "BASH_FUNC_f%%=() { evil; }", "LC_ALL=C"}

func TestEnvEntriesComeInLayers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	body := "\ufeff# a comment\n\n  FROM_FILE=a b # not a comment\r\nCANARY\nNOT_SET\nQUOTED=\"x\"\nLAST=file\n"
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	o := envOptions{set: list{values: []string{"LAST=flag", "EMPTY", "A", "GONE", "X=a=b"}}, files: list{values: []string{file}}}
	got, err := o.entries("run", own)
	want := []string{"FROM_FILE=a b # not a comment", "CANARY=secret", `QUOTED="x"`, "LAST=flag", "EMPTY=", "A=2", "X=a=b"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestEnvRefusesBadNamesAndTellsNoValue(t *testing.T) {
	dir := t.TempDir()
	for _, bad := range []string{"=secret", "A-B=secret", "1A=secret", "BASH_FUNC_f%%=secret", "A B=secret", "é=secret", "N=secret\x00"} {
		o := envOptions{set: list{values: []string{bad}}}
		if _, err := o.entries("run", own); workspace.CodeOf(err) != workspace.ErrInvalidArgument || strings.Contains(err.Error(), "secret") {
			t.Errorf("--env %q: %v", bad, err)
		}
		file := filepath.Join(dir, "env")
		if err := os.WriteFile(file, []byte("GOOD=1\n"+bad+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		o = envOptions{files: list{values: []string{file}}}
		if _, err := o.entries("run", own); workspace.CodeOf(err) != workspace.ErrInvalidArgument || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("--env-file with %q: %v", bad, err)
		}
	}
	for _, file := range []string{filepath.Join(dir, "none"), dir} {
		o := envOptions{files: list{values: []string{file}}}
		if _, err := o.entries("run", own); workspace.CodeOf(err) != workspace.ErrInvalidArgument {
			t.Errorf("--env-file %s: %v", file, err)
		}
	}
}

func TestNothingIsInheritedThatIsNotNamed(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		want     []string
	}{
		{nil, nil},
		{[]string{"CANARY"}, []string{"CANARY=secret"}},
		{[]string{"A*"}, []string{"A=2"}},
		{[]string{"*"}, []string{"CANARY=secret", "EMPTY=", "A=2", "PATH=/usr/bin", "HOME=/home/me", "LC_ALL=C"}},
	} {
		o := envOptions{inherit: c.patterns}
		if got := o.inherited(own); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.patterns, got, c.want)
		}
	}
	var usual envOptions
	if got := usual.hostBase(own); slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, "CANARY") }) || !slices.Contains(got, "PATH=/usr/bin") {
		t.Errorf("the usual environment of the host driver is %q", got)
	}
	none := envOptions{inheritSet: true}
	if got := none.hostBase(own); len(got) != 0 {
		t.Errorf("--inherit-env '' passes %q", got)
	}
}

func TestEngineAddressComesFromTheEnvironmentAlone(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, body := range map[string]string{".env": "DOCKER_HOST=unix:///evil", ".docker/config.json": `{"currentContext":"evil"}`, "compose.yaml": "x"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, env := range []environment{{}, {"HOME=" + t.TempDir()}, {"DOCKER_CONFIG=.docker"}, {"HOME=."}} {
		if got, err := env.engine(); err != nil || got.Host != (environment{}).usualSocket() {
			t.Errorf("%v: %+v, %v", env, got, err)
		}
	}
}
