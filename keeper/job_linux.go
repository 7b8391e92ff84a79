package keeper

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// jobSocket is the descriptor on which a job's files come where no socket is named.
const jobSocket = 3

// jobHere is the argument of the process that forkJob makes.
const jobHere = "-"

// handTime bounds each step of getting a job's files.
const handTime = 10 * time.Second

// jobMode runs one job, and returns the exit status of the keeper.
func jobMode(args []string) int {
	switch {
	case len(args) == 0:
		return forkJob()
	case len(args) != 1:
		return exitUsage
	}
	e, err := prepare()
	if err != nil {
		return exitKernel
	}
	f, ok := e.in.take()
	if !ok || f.kind != frameJob {
		return exitProtocol
	}
	job, token, ok := decodeJob(f.payload)
	if !ok {
		return exitProtocol
	}
	conn := jobSocket
	if args[0] != jobHere {
		if conn, err = dialJob(args[0]); err != nil {
			return exitKernel
		}
	}
	files, err := takeFiles(conn, token)
	if err != nil {
		return exitProtocol
	}
	if err := standOn(files[JobControl]); err != nil {
		return exitKernel
	}
	e.in = inbox{}
	return runJob(e, job, files, conn)
}

// forkJob does the same in a process of its own, which nobody has to wait for, and
// is done.
func forkJob() int {
	_, err := syscall.ForkExec("/proc/self/exe", []string{Name, ModeJob, jobHere}, &syscall.ProcAttr{
		Files: []uintptr{0, 1, 2, jobSocket}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return exitKernel
	}
	return exitOK
}

func dialJob(path string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	return fd, unix.Connect(fd, &unix.SockaddrUnix{Name: path})
}

// takeFiles shows the token and gets the job's files for it.
func takeFiles(conn int, token string) ([]int, error) {
	limit := unix.NsecToTimeval(int64(handTime))
	for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(conn, unix.SOL_SOCKET, option, &limit); err != nil {
			return nil, err
		}
	}
	if err := writeAll(conn, []byte(token)); err != nil {
		return nil, err
	}
	oob := make([]byte, unix.CmsgSpace(4*int(JobFiles)))
	_, n, _, _, err := unix.Recvmsg(conn, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, errMalformed
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != int(JobFiles) {
		return nil, errMalformed
	}
	return fds, nil
}

// standOn makes the control FIFO the standard input, and gives up the streams of
// who asked.
func standOn(control int) error {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(null)
	for fd, from := range []int{control, null, null} {
		if err := unix.Dup3(from, fd, 0); err != nil {
			return err
		}
	}
	return nil
}

// runJob runs the command, tells on conn how that went, and keeps what comes of it.
func runJob(e *events, job *Job, files []int, conn int) int {
	s := &server{events: e, report: newReporter(), standing: currentStanding(), cpus: currentAffinity()}
	c := &command{server: s, order: &order{Request: job.Request, seal: job.Seal, noStdin: true}}
	what, err := "exec", error(nil)
	if c.streams, err = newJobStreams(job, files); err == nil {
		what, err = c.start()
	}
	if err != nil {
		_ = writeAll(conn, failedAnswer(what, errnoOf(err)))
		return exitOK
	}
	c.streams.begin()
	if job.Timeout > 0 {
		c.deadline = c.begun.Add(job.Timeout)
	}
	// Who asked may be gone: the job goes on all the same.
	_ = writeAll(conn, startedAnswer(c.leader))
	_ = unix.Close(conn)
	if owned := c.wait(); !owned && !c.exited {
		c.stopping, c.status.Stopped = true, true
	}
	c.end(true)
	end := JobEnd{Status: c.status, TimedOut: c.timedOut, EndedAt: time.Now(), Duration: time.Since(c.begun)}
	end.Stdout, end.Stderr = c.streams.finish(time.Now().Add(endTime))
	if writeStatus(files[JobStatus], end.jobBody(job.Seal)) != nil {
		return exitKernel
	}
	if end.Unfinished > 0 {
		s.retire(true)
	}
	return exitOK
}

// writeStatus writes the end down, on disk before anybody can see that this
// process is gone.
func writeStatus(fd int, text string) error {
	if err := writeAll(fd, []byte(text)); err != nil {
		return err
	}
	return unix.Fsync(fd)
}
