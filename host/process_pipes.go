//go:build unix

package host

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// pipes are this process's ends of a command's streams.
type pipes struct {
	stdin          *os.File // nil: the command has /dev/null
	stdout, stderr *outPipe
	once           sync.Once
}

// childFiles are the command's ends, for as long as it takes to start it.
type childFiles struct{ stdin, stdout, stderr *os.File }

// list is what the command gets: its three streams, and nothing that this
// process was itself started with and would hand on (Go marks what it opens
// close-on-exec). A nil entry closes that descriptor in the command.
func (f *childFiles) list() []*os.File {
	list := []*os.File{f.stdin, f.stdout, f.stderr}
	// Without a list there is nothing to close by.
	names, _ := os.ReadDir("/dev/fd")
	for _, e := range names {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < len(list) {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			list = append(list, make([]*os.File, fd+1-len(list))...)
		}
	}
	return list
}

func (f *childFiles) close() {
	for _, file := range []*os.File{f.stdin, f.stdout, f.stderr} {
		if file != nil {
			_ = file.Close()
		}
	}
}

// newPipes makes both ends of what s needs.
func newPipes(s workspace.Streams) (_ *pipes, _ *childFiles, err error) {
	p, c := &pipes{}, &childFiles{}
	defer func() {
		if err != nil {
			c.close()
			p.close()
		}
	}()
	if s.Stdin == nil {
		c.stdin, err = os.Open(os.DevNull)
	} else {
		c.stdin, p.stdin, err = os.Pipe()
	}
	if err != nil {
		return nil, nil, err
	}
	if p.stdout, c.stdout, err = newOutPipe(s.Stdout); err != nil {
		return nil, nil, err
	}
	if p.stderr, c.stderr, err = newOutPipe(s.Stderr); err != nil {
		return nil, nil, err
	}
	return p, c, nil
}

// begin lets the streams flow.
func (p *pipes) begin(s workspace.Streams) {
	go p.stdout.copy()
	go p.stderr.copy()
	if p.stdin == nil {
		return
	}
	go func() {
		// A command that reads no more is no failure. A Read that blocks
		// may outlive the command: nothing can end it.
		_, _ = io.Copy(p.stdin, s.Stdin)
		_ = p.stdin.Close()
	}()
}

// settle, once the command has exited, ends its input and returns when all
// that it has written has been passed on, whoever still holds the pipes. What
// comes later is dropped.
func (p *pipes) settle() {
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
	p.stdout.settle()
	p.stderr.settle()
	<-p.stdout.told
	<-p.stderr.told
}

// wait returns when nobody holds the command's ends any more, or close.
func (p *pipes) wait() {
	<-p.stdout.ended
	<-p.stderr.ended
}

// close lets go of the pipes. Who still writes gets SIGPIPE.
func (p *pipes) close() {
	p.once.Do(func() {
		if p.stdin != nil {
			_ = p.stdin.Close()
		}
		for _, o := range []*outPipe{p.stdout, p.stderr} {
			if o != nil {
				_ = o.r.Close()
			}
		}
	})
}

// outPipe is one stream of output.
type outPipe struct {
	r     *os.File
	w     io.Writer
	told  chan struct{} // closed when all that counts has been passed on
	ended chan struct{} // closed when nothing is read any more

	failed bool // w takes no more; used by copy alone
}

// newOutPipe makes a pipe to w, and returns the command's end too.
func newOutPipe(w io.Writer) (*outPipe, *os.File, error) {
	r, child, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &outPipe{r: r, w: w, told: make(chan struct{}), ended: make(chan struct{})}, child, nil
}

// settle makes copy take what is in the pipe now as the last that counts.
func (o *outPipe) settle() {
	// It wakes a Read, and fails only for a pipe that is closed.
	_ = o.r.SetReadDeadline(time.Unix(1, 0))
}

// copy passes on what the command writes until it is told to settle, and then
// drains and drops until the end of the pipe.
func (o *outPipe) copy() {
	defer close(o.ended)
	buf := make([]byte, 32<<10)
	err := o.pass(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = o.rest(buf)
	}
	close(o.told)
	if err != nil {
		return
	}
	for {
		if _, err := o.r.Read(buf); err != nil {
			return
		}
	}
}

// pass passes bytes on until a Read fails, and returns why.
func (o *outPipe) pass(buf []byte) error {
	for {
		n, err := o.r.Read(buf)
		o.write(buf[:n])
		if err != nil {
			return err
		}
	}
}

// rest passes on what is in the pipe at this moment, not what is written to it
// meanwhile: somebody who goes on writing could hold back the end for ever. The
// error is the end of the pipe.
func (o *outPipe) rest(buf []byte) error {
	if err := o.r.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	raw, err := o.r.SyscallConn()
	if err != nil {
		return err
	}
	left := 0
	if e := raw.Control(func(fd uintptr) { left, err = pending(fd) }); e != nil || err != nil {
		return errors.Join(e, err)
	}
	for left > 0 {
		n := 0
		e := raw.Read(func(fd uintptr) bool {
			n, err = syscall.Read(int(fd), buf[:min(left, len(buf))])
			return err != syscall.EINTR
		})
		switch {
		case e != nil:
			return e
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		}
		o.write(buf[:n])
		left -= n
	}
	return nil
}

func (o *outPipe) write(p []byte) {
	if o.failed || len(p) == 0 {
		return
	}
	_, err := o.w.Write(p)
	o.failed = err != nil
}
