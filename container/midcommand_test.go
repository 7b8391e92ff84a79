//go:build linux

package container_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	dockertypes "github.com/docker/docker/api/types/container"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// What happens to the container, or to the keeper of a command, while that runs is
// told as such, at once, and never as a status of the command; nothing of it is alive
// then, and the next command works.
func TestHarmWhileACommandRuns(t *testing.T) {
	t.Parallel()
	e, cli := connect(t), enginetest.Client(t)
	enginetest.Keeper(t)
	for name, harm := range map[string]func(t *testing.T, id string) error{
		"killed": func(t *testing.T, id string) error { return cli.ContainerKill(t.Context(), id, "KILL") },
		"removed": func(t *testing.T, id string) error {
			return cli.ContainerRemove(t.Context(), id, dockertypes.RemoveOptions{Force: true})
		},
		"restarted": func(t *testing.T, id string) error {
			now := 0
			_ = cli.ContainerRestart(t.Context(), id, dockertypes.StopOptions{Timeout: &now})
			return nil // it may be removed before it can be started again
		},
		"keepers killed": func(t *testing.T, id string) error {
			killed := 0
			top, err := cli.ContainerTop(t.Context(), id, []string{"-o", "pid,args"})
			for _, p := range top.Processes {
				if pid, _ := strconv.Atoi(p[0]); strings.HasSuffix(p[1], " serve") {
					err = syscall.Kill(pid, syscall.SIGKILL)
					killed++
				}
			}
			if err == nil && killed == 0 {
				err = fmt.Errorf("no serving keeper in %q", top.Processes)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "keepers killed" && os.Geteuid() != 0 {
				t.Skip("only root may kill processes of a container from outside")
			}
			for way, kept := range map[string]bool{"warm": true, "cold": false} {
				if !kept && name == "keepers killed" {
					continue
				}
				o := options(t)
				if !kept {
					o.Keeper = ""
				}
				root := newRoot(t)
				w := openWorkspace(t, e, root, o)
				exec(t, w, "true")
				word := fmt.Sprintf("86400.%d", rand.IntN(1e9))
				var harmed time.Time
				up := writerFunc(func(p []byte) (int, error) {
					if harmed.IsZero() {
						harmed = time.Now()
						if err := harm(t, only(t, root).ID); err != nil {
							t.Error(err)
						}
					}
					return len(p), nil
				})
				out, err := w.Exec(t.Context(), workspace.Command{Shell: "setsid sleep " + word + " & echo up; sleep " + word, Stdout: up, Timeout: time.Minute})
				if code := workspace.CodeOf(err); code != workspace.ErrUnavailable && code != workspace.ErrIO {
					t.Errorf("%s: %v, %s", way, err, brief(out))
				}
				if string(out.Stdout) != "up\n" {
					t.Errorf("%s: what it had written is lost: %s", way, brief(out))
				}
				if took := time.Since(harmed); took > 15*time.Second {
					t.Errorf("%s: told after %v", way, took)
				}
				if n := running(t, word); n != 0 {
					t.Errorf("%s: %d processes live on", way, n)
				}
				next := exec(t, w, "echo next")
				if string(next.Stdout) != "next\n" || (next.Recreated == "") != (name == "keepers killed") {
					t.Errorf("%s: %s", way, brief(next))
				}
			}
		})
	}
}

// A container that is paused while a command runs holds no timeout: what cannot get
// a signal goes with its container.
func TestPausedWhileACommandRuns(t *testing.T) {
	t.Parallel()
	e, root, cli := connect(t), newRoot(t), enginetest.Client(t)
	w := openWorkspace(t, e, root, options(t))
	exec(t, w, "true")
	word := fmt.Sprintf("86400.%d", rand.IntN(1e9))
	paused := false
	up := writerFunc(func(p []byte) (int, error) {
		if !paused {
			paused = true
			if err := cli.ContainerPause(t.Context(), only(t, root).ID); err != nil {
				t.Error(err)
			}
		}
		return len(p), nil
	})
	began := time.Now()
	const timeout, grace = 2 * time.Second, time.Second
	out, err := w.Exec(t.Context(), workspace.Command{Shell: "echo up; sleep " + word, Stdout: up, Timeout: timeout, KillGrace: grace})
	if err != nil || !out.TimedOut || out.ExitCode != 124 {
		t.Errorf("%v, %s", err, brief(out))
	}
	if took := time.Since(began); took > timeout+grace+2*time.Second {
		t.Errorf("it took %v", took)
	}
	if next := exec(t, w, "echo next"); string(next.Stdout) != "next\n" || next.Recreated == "" {
		t.Errorf("%s", brief(next))
	}
	eventually(t, "the command's end", 10*time.Second, func() bool { return running(t, word) == 0 })
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
