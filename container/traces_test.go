//go:build linux

package container_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// A secret in a command's environment is there and nowhere else: in no argument of
// a process, not with PID 1, not in what the engine tells.
func TestSecretOfACommandIsNowhereElse(t *testing.T) {
	t.Parallel()
	e, root, cli := connect(t), newRoot(t), enginetest.Client(t)
	w := openWorkspace(t, e, root, options(t))
	secret := "secret-" + filepath.Base(filepath.Dir(root)) + "-0451"
	c := workspace.Command{Shell: `[ -n "$S" ] && echo "$S" | wc -c; sleep 60`, Env: []string{"S=" + secret}, Stdin: strings.NewReader(secret + "in")}
	stdout, out := newLine()
	c.Stdout = stdout
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = w.Exec(ctx, c)
	}()
	defer func() { cancel(); <-ended }()
	select {
	case got := <-out:
		if got != strconv.Itoa(len(secret)+1)+"\n" {
			t.Fatalf("the command found %q", got)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the command did not begin")
	}
	id := only(t, root).ID
	got, err := cli.ContainerInspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(secret)) {
		t.Error("the engine tells it")
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Fatalf("%v, %v", lines, err)
	}
	for _, name := range append(lines, "/proc/"+strconv.Itoa(got.State.Pid)+"/environ") {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s has it: %q", name, text)
		}
	}
}

// newLine is a writer and the first thing that is written to it.
func newLine() (*lineWriter, <-chan string) {
	c := make(chan string, 1)
	return &lineWriter{c}, c
}

type lineWriter struct{ first chan string }

func (w *lineWriter) Write(p []byte) (int, error) {
	select {
	case w.first <- string(p):
	default:
	}
	return len(p), nil
}

// Commands run as whoever owns the root, what they make belongs to that user, and
// no mode that they give it keeps the host from removing it.
func TestFilesBelongToTheOwnerOfTheRoot(t *testing.T) {
	t.Parallel()
	e, root := connect(t), ownedRoot(t, 1000)
	uid := os.Geteuid()
	if uid == 0 {
		uid = 1000
	}
	w := openWorkspace(t, e, root, options(t))
	if out := exec(t, w, "id -u; mkdir -p d/e; echo x >d/e/f; chmod 000 d/e/f d/e d"); strings.TrimSpace(string(out.Stdout)) != strconv.Itoa(uid) {
		t.Errorf("it runs as %q, not %d", out.Stdout, uid)
	}
	fi, err := os.Lstat(filepath.Join(root, "d"))
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != uid {
		t.Errorf("it belongs to %+v", fi.Sys())
	}
	if err := w.Remove(t.Context(), "d", workspace.RemoveOptions{Recursive: true}); err != nil {
		t.Errorf("removed by the host: %v", err)
	}

	// The root's own mode is the command's to change, and the caller's to mend.
	exec(t, w, "echo x >file; chmod 000 .")
	_, err = w.Exec(t.Context(), workspace.Command{Args: []string{"cat", "file"}, Timeout: time.Minute})
	if !errors.Is(err, workspace.ErrDenied) {
		t.Errorf("in a closed root: %v", err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if out := exec(t, w, "cat file; chmod 777 ."); string(out.Stdout) != "x\n" {
		t.Errorf("after the mode is mended: %q %q", out.Stdout, out.Stderr)
	}
	var log bytes.Buffer
	o := options(t)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	open(t, e, root, o)
	if !strings.Contains(log.String(), "every user of this machine can write to the root") {
		t.Errorf("a root that all can write to: %s", &log)
	}
}

// As root commands run as root only where the root directory is root's, and a
// warning says so.
func TestRunningAsRootIsWarnedAbout(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs commands as root")
	}
	e := connect(t)
	for uid, warned := range map[int]bool{0: true, 1000: false} {
		var log bytes.Buffer
		o := options(t)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w := openWorkspace(t, e, ownedRoot(t, uid), o)
		out := exec(t, w, `echo "$(id -u):$(id -g)"; grep -c '^CapEff:	0000000000000000$' /proc/self/status`)
		if want := strconv.Itoa(uid) + ":" + strconv.Itoa(uid) + "\n1\n"; string(out.Stdout) != want {
			t.Errorf("it is %q, want %q", out.Stdout, want)
		}
		if strings.Contains(log.String(), "commands run as root") != warned {
			t.Errorf("uid %d: %s", uid, &log)
		}
	}
}

// On the host nothing of the root is run and no configuration in it is followed,
// whatever is done with the workspace.
func TestNothingOfTheRootIsRunOnTheHost(t *testing.T) {
	t.Parallel()
	e, root := connect(t), newRoot(t)
	canary := filepath.Join(t.TempDir(), "ran")
	program := "#!/bin/sh\necho \"$0\" >>" + canary + "\n"
	for _, name := range []string{"git", "sh", "docker", "runc", "mount", "evil", ".git/hooks/post-checkout", ".git/hooks/pre-commit"} {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(program), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	evil := filepath.Join(root, "evil")
	config := "[core]\n\tfsmonitor = " + evil + "\n\thooksPath = " + root + "\n\tsshCommand = " + evil + "\n[diff]\n\texternal = " + evil + "\n[filter \"x\"]\n\tclean = " + evil + "\n\tsmudge = " + evil + "\n"
	for name, text := range map[string]string{".git/config": config, ".gitattributes": "* filter=x diff=x\n", ".git/HEAD": "ref: refs/heads/main\n", "file": "text\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := openWorkspace(t, e, root, options(t))
	exec(t, w, "true")
	_, err := w.WriteFile(t.Context(), "file", []byte("more\n"), workspace.WriteOptions{})
	for _, err := range []error{
		err,
		w.Rename(t.Context(), "file", "moved", workspace.RenameOptions{}),
		w.Remove(t.Context(), "moved", workspace.RemoveOptions{Trash: true}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(canary); err == nil {
		t.Errorf("run on the host: %s", text)
	}
}
