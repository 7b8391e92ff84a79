//go:build unix

package container

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/spool"
	"github.com/wsctl/wsctl/workspace"
	"github.com/wsctl/wsctl/wrapper"
)

var _ workspace.JobStarter = (*Driver)(nil)

// StartJob implements workspace.JobStarter. The job has a keeper of its own, an
// exec that nothing of this process is attached to once it runs: it goes on with a
// detached container.
func (d *Driver) StartJob(ctx context.Context, c workspace.Command, j workspace.Job) error {
	return d.inContainer(ctx, func(b *box) error {
		if d.opts.Door == "" || b.keeper == "" || b.door != d.opts.Door {
			return workspace.Errorf(workspace.ErrUnsupported, "job", "", "the container has no way for jobs: they need wsctl serve, a keeper inside, and a container that was made with them; stop the workspace, and the next command makes it anew")
		}
		return b.startJob(ctx, d.opts.Door, c, j)
	})
}

func (b *box) startJob(ctx context.Context, door string, c workspace.Command, j workspace.Job) error {
	token, err := wrapper.NewToken(rand.Reader)
	if err != nil {
		return err
	}
	job := keeper.Job{
		Request: keeper.Request{Path: b.shell, Env: workspace.MergeEnv(b.env, c.Env), Dir: guestDir(c.Dir)},
		Seal:    j.Seal, Input: j.Input, Timeout: max(c.Timeout, 0), Grace: c.KillGrace, Limit: j.Limit,
	}
	job.Args, job.Inner = wrapper.Argv(c.Args, c.Shell)
	request, err := job.Encode(token)
	if err != nil {
		return b.startError(ctx, c, err)
	}
	socket, err := spool.OpenDoor(door)
	if err != nil {
		return workspace.Errorf(workspace.ErrIO, "job", "", "the socket for the job's keeper: %w", err)
	}
	defer socket.Close()
	conn, err := b.exec(ctx, []string{b.keeper, keeper.ModeJob, guestDoor + "/" + socket.Name})
	if err != nil {
		return err
	}
	over, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		said := &head{limit: maxSaid}
		err := conn.demux(said, said)
		over <- fmt.Errorf("the job's keeper has ended at once: %w", errors.Join(err, errors.New(workspace.Printable(said.String()))))
	}()
	defer func() {
		_ = conn.Close()
		<-done
	}()
	if _, err := conn.Write(request); err != nil {
		return b.lost(ctx, err)
	}
	if err := socket.HandOver(ctx, token, j.Files, over); err != nil {
		return b.startError(ctx, c, err)
	}
	return nil
}

// maxSaid bounds what is kept of what a keeper that does not come has said, in
// bytes.
const maxSaid = 1024

// orphanTime is how long the kernel may take to give the children of a process that
// has died to PID 1.
const orphanTime = 200 * time.Millisecond

// SweepJobs implements workspace.JobStarter: what a killed keeper has left is PID
// 1's.
func (d *Driver) SweepJobs(ctx context.Context) error {
	return d.inContainer(ctx, func(b *box) error {
		if b.pid1 == nil {
			return nil
		}
		for {
			// A process that dies lets its files go, which is how its death
			// shows, and only then its children.
			select {
			case <-time.After(orphanTime):
			case <-ctx.Done():
				return ctx.Err()
			}
			bounded, cancel := context.WithTimeout(ctx, reportTimeout)
			killed, left, err := b.pid1.Sweep(bounded, sweepTimeout)
			cancel()
			if err == nil && left > 0 {
				d.discard(b, "the keeper of a job was killed, and what it ran could not be ended")
			}
			if err != nil || killed == 0 || left > 0 {
				return err
			}
		}
	})
}
