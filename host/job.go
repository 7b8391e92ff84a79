//go:build unix

package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/spool"
	"github.com/wsctl/wsctl/workspace"
	"github.com/wsctl/wsctl/wrapper"
)

var _ workspace.JobStarter = (*Driver)(nil)

// StartJob implements workspace.JobStarter. It needs a keeper, which is nobody's
// child once it runs: Close leaves it.
func (d *Driver) StartJob(ctx context.Context, c workspace.Command, j workspace.Job) error {
	p, ok := d.starter.(*pool)
	if !ok {
		return workspace.Errorf(workspace.ErrUnsupported, "job", "", "a job needs a keeper, which this kind of workspace has on Linux alone; use Exec")
	}
	dir, err := d.root.OpenDir(ctx, c.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	g := newProgram(c, d.env, dir)
	token, err := wrapper.NewToken(rand.Reader)
	if err != nil {
		return err
	}
	job := keeper.Job{
		Request: keeper.Request{Path: shell, Args: g.args, Inner: g.inner, Env: g.env, Dir: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), dir.Fd())},
		Seal:    j.Seal, Input: j.Input, Timeout: max(c.Timeout, 0), Grace: c.KillGrace, Limit: j.Limit,
	}
	request, err := job.Encode(token)
	if err == nil {
		err = handOver(ctx, p.path, request, token, j.Files)
	}
	var failed *keeper.StartError
	switch {
	case errors.As(err, &failed):
		return startError(failed.Step, failed.Errno)
	case err != nil && ctx.Err() != nil:
		return aborted(ctx)
	case err != nil:
		return workspace.Errorf(workspace.ErrUnavailable, "job", "", "the job's keeper cannot be started; Keeper must name a program that calls keeper.Init: %w", err)
	}
	return nil
}

// handOver starts a keeper and gives it a job.
func handOver(ctx context.Context, path string, request []byte, token string, files []*os.File) error {
	// No other command may get it in between.
	syscall.ForkLock.RLock()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		syscall.ForkLock.RUnlock()
		return err
	}
	unix.CloseOnExec(ends[0])
	unix.CloseOnExec(ends[1])
	syscall.ForkLock.RUnlock()
	ours, theirs := os.NewFile(uintptr(ends[0]), "job"), os.NewFile(uintptr(ends[1]), "job")
	defer theirs.Close()
	made, err := net.FileConn(ours)
	_ = ours.Close()
	if err != nil {
		return err
	}
	defer made.Close()
	conn, ok := made.(*net.UnixConn)
	if !ok {
		return errors.ErrUnsupported
	}
	cmd := &exec.Cmd{
		Path: path, Args: []string{keeper.Name, keeper.ModeJob}, Env: []string{}, Dir: "/",
		Stdin: bytes.NewReader(request), ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	// It is done when it has made the process that the job is run by.
	if err := cmd.Run(); err != nil {
		return err
	}
	_ = theirs.Close() // so that its end shows
	return spool.HandOver(ctx, conn, token, files)
}

// SweepJobs implements workspace.JobStarter. What a killed keeper has left is the
// system's, and cannot be told from the user's own: it is left.
func (*Driver) SweepJobs(context.Context) error { return nil }
