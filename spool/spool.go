//go:build unix

package spool

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/wrapper"
)

// ErrGone: the job's keeper has ended, so nobody takes input or signals.
var ErrGone = errors.New("spool: the keeper of the job is gone")

// ErrFull: what was written is not taken yet.
var ErrFull = errors.New("spool: the job has not taken what it was sent before")

// Stream is one of the two that a job writes.
type Stream string

// The streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Names of the other files of a spool.
const (
	inputName   = "input"
	controlName = "control"
	bellName    = "bell"
	statusName  = "status"
)

// Spool is the directory of one job, held open. Its methods may be called by many
// goroutines at once.
type Spool struct {
	dir int
}

// NewSeal returns a secret for a job, which its end is told with.
func NewSeal() (string, error) { return wrapper.NewToken(rand.Reader) }

// Create makes the directory of a new job, mode 0700, and the files in it. The
// files are for [HandOver], in the order of keeper.JobFile; the caller closes them
// when that has returned: as long as this process holds them the keeper's end does
// not show.
func Create(name string) (s *Spool, files []*os.File, err error) {
	if err := os.Mkdir(name, 0o700); err != nil {
		return nil, nil, err
	}
	if s, err = Open(name); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			CloseFiles(files)
			_ = s.Close()
			s, files = nil, nil
		}
	}()
	open := func(file string, flags int) (*os.File, error) {
		fd, err := unix.Openat(s.dir, file, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return os.NewFile(uintptr(fd), file), nil
	}
	for _, fifo := range []string{inputName, controlName, bellName} {
		if err := unix.Mkfifo(filepath.Join(name, fifo), 0o600); err != nil {
			return s, nil, fmt.Errorf("%s: %w", fifo, err)
		}
	}
	// With both ends open, neither end of the input waits for the other.
	both, err := open(inputName, unix.O_RDWR)
	if err != nil {
		return s, nil, err
	}
	defer both.Close()
	const fresh = unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_EXCL
	for _, f := range []struct {
		name  string
		flags int
	}{
		keeper.JobInput: {inputName, unix.O_RDONLY}, keeper.JobInputEnd: {inputName, unix.O_WRONLY},
		keeper.JobControl: {controlName, unix.O_RDWR}, keeper.JobBell: {bellName, unix.O_RDWR | unix.O_NONBLOCK},
		keeper.JobStdout: {string(Stdout), fresh}, keeper.JobStderr: {string(Stderr), fresh}, keeper.JobStatus: {statusName, fresh},
	} {
		file, err := open(f.name, f.flags)
		if err != nil {
			return s, files, err
		}
		files = append(files, file)
	}
	return s, files, nil
}

// CloseFiles closes what Create has returned.
func CloseFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Open opens the directory of a job.
func Open(name string) (*Spool, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return &Spool{dir: fd}, nil
}

// Close lets the directory go.
func (s *Spool) Close() error { return unix.Close(s.dir) }

// open opens one of the files, if it is of the type (S_IFREG, S_IFIFO) that was
// made. It never waits.
func (s *Spool) open(name string, flags int, kind uint32) (int, error) {
	fd, err := unix.Openat(s.dir, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || uint32(st.Mode)&unix.S_IFMT != kind {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("spool: %s is not the file that was made", name)
	}
	return fd, nil
}

// ReadAt reads what the job has written from an offset on. n is 0, without an
// error, where there is nothing yet.
func (s *Spool) ReadAt(from Stream, p []byte, offset int64) (n int, err error) {
	fd, err := s.open(string(from), unix.O_RDONLY, unix.S_IFREG)
	if err != nil {
		return 0, err
	}
	f := os.NewFile(uintptr(fd), string(from))
	defer f.Close()
	n, err = f.ReadAt(p, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Size is how much there is of a stream, in bytes.
func (s *Spool) Size(of Stream) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(s.dir, string(of), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, &os.PathError{Op: "stat", Path: string(of), Err: err}
	}
	if uint32(st.Mode)&unix.S_IFMT != unix.S_IFREG {
		return 0, fmt.Errorf("spool: %s is not the file that was made", of)
	}
	return st.Size, nil
}

// End is how the job has ended, by the word of its keeper; ok is false when it has
// not, or its keeper ended before it could tell.
func (s *Spool) End(seal string) (end keeper.JobEnd, ok bool, err error) {
	fd, err := s.open(statusName, unix.O_RDONLY, unix.S_IFREG)
	if err != nil {
		return end, false, err
	}
	f := os.NewFile(uintptr(fd), statusName)
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, keeper.MaxJobStatus+1))
	if err != nil {
		return end, false, err
	}
	end, ok = keeper.ParseJobEnd(string(text), seal)
	return end, ok, nil
}

// Send gives the keeper a frame: keeper.JobSignal, JobStop or JobEndInput. ErrGone
// when there is none any more; ErrFull when it does not listen.
func (s *Spool) Send(frame []byte) error {
	_, err := s.write(controlName, frame, time.Now().Add(sendTime))
	return err
}

// sendTime is how long a keeper may take to make room for a frame.
const sendTime = time.Second

// Input writes to the job's standard input what goes before the deadline. ErrGone
// when nobody reads it any more.
func (s *Spool) Input(p []byte, deadline time.Time) (n int, err error) {
	n, err = s.write(inputName, p, deadline)
	if errors.Is(err, ErrFull) {
		err = nil
	}
	return n, err
}

// write writes to a FIFO. SIGPIPE does not come of it: the runtime ignores that
// for descriptors above 2.
func (s *Spool) write(name string, p []byte, deadline time.Time) (int, error) {
	fd, err := s.open(name, unix.O_WRONLY, unix.S_IFIFO)
	if errors.Is(err, syscall.ENXIO) {
		return 0, ErrGone
	}
	if err != nil {
		return 0, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if err := f.SetWriteDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := f.Write(p)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, ErrFull
	case errors.Is(err, unix.EPIPE):
		return n, ErrGone
	}
	return n, err
}

// Watch calls rang whenever the job has written more, until its keeper is gone or
// closed is. One may watch a job at a time.
func (s *Spool) Watch(closed <-chan struct{}, rang func()) error {
	fd, err := s.open(bellName, unix.O_RDONLY, unix.S_IFIFO)
	if err != nil {
		return err
	}
	bell := os.NewFile(uintptr(fd), bellName)
	defer bell.Close()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-closed:
			_ = bell.Close()
		case <-ended:
		}
	}()
	buf := make([]byte, 4096)
	for {
		n, err := bell.Read(buf)
		if n > 0 {
			rang()
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return err
		}
	}
}
