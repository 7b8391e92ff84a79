//go:build unix

package container_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// ownerWorks, in the environment of the owner that gets killed, has it write a file
// and run commands without end, rather than do nothing.
const ownerWorks = "WSCTL_TEST_OWNER_WORKS"

// workSize is how large the file is; all its bytes are the same letter.
const workSize = 256 << 10

// work returns only when something is wrong.
func work(ctx context.Context, d *container.Driver) error {
	w, err := workspace.New(d, workspace.Options{})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if _, err := w.WriteFile(ctx, "file", bytes.Repeat([]byte{'a' + byte(i%26)}, workSize), workspace.WriteOptions{}); err != nil {
			return err
		}
		line := "setsid sleep 86400 & echo x >>commands; wc -c <file; sleep .05"
		out, err := w.Exec(ctx, workspace.Command{Shell: line})
		if err != nil || string(out.Stdout) != fmt.Sprintln(workSize) {
			return fmt.Errorf("%w, %s", err, brief(out))
		}
	}
}

// An owner that is killed at any moment, while it makes its container, while it writes
// and while commands run, leaves nothing that is there after the next start of anybody,
// and no file half written.
func TestOwnerIsKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	const batch = 10
	kills := batch
	if enginetest.Soak() {
		kills = 200
	}
	cli, keeper, image := enginetest.Client(t), enginetest.Keeper(t), enginetest.BusyBox(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e, root := connect(t), newRoot(t)
	file := filepath.Join(root, "file")
	// begin starts an owner; ready is closed when its container is up.
	begin := func() (owner *osexec.Cmd, ready <-chan struct{}, said func() string) {
		owner = osexec.CommandContext(t.Context(), self)
		owner.Env = append(os.Environ(), ownerRoot+"="+root, ownerWorks+"=1", "WSCTL_TEST_HOST="+cli.DaemonHost(), "WSCTL_TEST_IMAGE="+image, "WSCTL_TEST_OWNER_KEEPER="+keeper)
		out, err := owner.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := owner.Start(); err != nil {
			t.Fatal(err)
		}
		up, over, wrong := make(chan struct{}), make(chan struct{}), ""
		go func() {
			defer close(over)
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				if lines.Text() == "ready" {
					close(up)
				} else {
					wrong += lines.Text() + "\n"
				}
			}
		}()
		return owner, up, func() string { <-over; return wrong }
	}
	// How long a start takes says among which moments to choose.
	begun := time.Now()
	owner, ready, said := begin()
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Error("the owner is not ready")
	}
	takes := time.Since(begun)
	up, working := 0, 0
	for i := range kills {
		if i > 0 {
			owner, ready, said = begin()
		}
		time.Sleep(time.Duration(rand.Int64N(int64(takes * 3 / 2))))
		if err := owner.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if wrong := said(); wrong != "" {
			t.Fatalf("kill %d: the owner says %s", i, wrong)
		}
		_ = owner.Wait() // it was killed
		select {
		case <-ready:
			up++
		default:
		}
		if text, err := os.ReadFile(file); err == nil {
			working++
			if len(text) != workSize || !bytes.Equal(text, bytes.Repeat(text[:1], workSize)) {
				t.Fatalf("kill %d: the file has %d bytes, from %.10q", i, len(text), text)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		if (i+1)%batch != 0 {
			continue
		}
		// What the engine was asked for and has not yet made is nobody's to find.
		time.Sleep(time.Second)
		d := open(t, e, newRoot(t), options(t))
		if err := d.Ready(t.Context()); err != nil {
			t.Fatalf("the next start after kill %d: %v", i, err)
		}
		eventually(t, fmt.Sprintf("no container after kill %d and the next start", i), 10*time.Second, func() bool { return len(enginetest.Below(t, root)) == 0 })
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d kills within %v of the start, which takes %v: %d with a container that was up, %d after a file was written", kills, takes*3/2, takes, up, working)
	if enginetest.Soak() && (up == 0 || up == kills || working == 0) {
		t.Error("the moments were not mixed")
	}
}
