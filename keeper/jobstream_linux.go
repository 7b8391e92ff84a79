package keeper

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// jobStreams are the streams of a job's command: what it writes goes through pipes
// into files, so that it has no descriptor of what is kept.
type jobStreams struct {
	grace  time.Duration
	stdin  *os.File // the command's
	hold   *os.File // the writing end of it; nil: ended
	theirs []*os.File
	kept   [2]*spooler
}

func newJobStreams(job *Job, files []int) (*jobStreams, error) {
	file := func(f JobFile) *os.File { return os.NewFile(uintptr(files[f]), "job") }
	s := &jobStreams{grace: job.Grace, stdin: file(JobInput), hold: file(JobInputEnd)}
	if !job.Input {
		s.endInput()
		_ = s.stdin.Close()
		var err error
		if s.stdin, err = os.Open("/dev/null"); err != nil {
			return nil, err
		}
	}
	room := &atomic.Int64{}
	room.Store(job.Limit)
	for i, to := range []JobFile{JobStdout, JobStderr} {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			return nil, err
		}
		_ = unix.SetNonblock(ends[0], true) // so that a read can be ended
		from := os.NewFile(uintptr(ends[0]), "command's output")
		s.theirs = append(s.theirs, os.NewFile(uintptr(ends[1]), "command's output"))
		s.kept[i] = &spooler{from: from, to: file(to), room: room, bell: files[JobBell], done: make(chan struct{})}
	}
	return s, nil
}

// files are the command's three descriptors.
func (s *jobStreams) files() []uintptr {
	return []uintptr{s.stdin.Fd(), s.theirs[0].Fd(), s.theirs[1].Fd()}
}

// begin closes what is the command's alone and copies from now on.
func (s *jobStreams) begin() {
	for _, f := range append(s.theirs, s.stdin) {
		_ = f.Close()
	}
	for _, k := range s.kept {
		go k.run()
	}
}

// endInput closes the end of the input that keeps it open while nobody writes.
func (s *jobStreams) endInput() {
	if s.hold != nil {
		_ = s.hold.Close()
		s.hold = nil
	}
}

// finish returns what there was of both streams. What could not be ended may hold
// them: no longer than until the deadline.
func (s *jobStreams) finish(deadline time.Time) (stdout, stderr JobStream) {
	for _, k := range s.kept {
		_ = k.from.SetReadDeadline(deadline)
		<-k.done
	}
	return s.kept[0].count, s.kept[1].count
}

// spooler copies one stream into its file, as far as there is room, and rings the
// bell for it.
type spooler struct {
	from, to *os.File
	room     *atomic.Int64 // shared by both streams, in bytes
	bell     int
	count    JobStream // until done is closed its own
	done     chan struct{}
}

const spoolBuffer = 64 << 10

func (k *spooler) run() {
	defer close(k.done)
	buf := make([]byte, spoolBuffer)
	for {
		n, err := k.from.Read(buf)
		if n > 0 {
			k.keep(buf[:n])
		}
		if err != nil {
			_ = k.to.Sync()
			return
		}
	}
}

// keep writes what there is room for. A disk that is full costs the rest, as the
// limit does, and never the command.
func (k *spooler) keep(b []byte) {
	most := int64(len(b))
	if left := k.room.Add(-most); left < 0 {
		most = max(most+left, 0)
		k.room.Store(0)
	}
	n, err := k.to.Write(b[:most])
	if err != nil {
		k.room.Store(0)
	}
	k.count.Kept += int64(n)
	k.count.Dropped += int64(len(b) - n)
	if n > 0 {
		// A full bell rings already.
		_, _ = unix.Write(k.bell, []byte{1})
	}
}
