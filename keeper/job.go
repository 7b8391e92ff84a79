package keeper

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"syscall"
	"time"

	"github.com/wsctl/wsctl/wrapper"
)

// A job is a command that outlives who asked for it. Its keeper has no other: it
// ends with it.
//
// Who asks writes [Job.Encode] to the keeper's stdin. The keeper sends the token in
// it over a socket, gets the job's files over that as open descriptors (SCM_RIGHTS,
// unix(7)), in the order of [JobFile], runs the command and answers with what
// [ParseJobAnswer] reads. From then on everything goes through the files, which
// have no name that the command could reach: the keeper writes what comes on the
// command's streams into two of them, rings the bell whenever there is more, takes
// frames from the control FIFO, and writes last how it all ended, with the seal. A
// bell without a writer says that the keeper is gone.

// JobFile is the place of a file among those that a job's keeper gets.
type JobFile int

const (
	// JobInput and JobInputEnd are the two ends of the FIFO that is the
	// command's stdin; the keeper holds the writing one until its owner ends
	// the input.
	JobInput JobFile = iota
	JobInputEnd
	// JobControl is a FIFO of frames to the keeper, open both ways.
	JobControl
	// JobBell is a FIFO of single bytes from it, open both ways and
	// non-blocking.
	JobBell
	// JobStdout, JobStderr and JobStatus are files to write to.
	JobStdout
	JobStderr
	JobStatus
	// JobFiles is how many there are.
	JobFiles
)

// Job is a command for [ModeJob].
type Job struct {
	// Request is the command. Keep, Outlive and Terminal must not be set.
	Request
	// Seal is a secret of who asks, which the end is told with: see
	// [ParseJobEnd].
	Seal string
	// Input gives the command [JobInput] as stdin; else that is empty.
	Input bool
	// Timeout ends the command so long after its start, SIGKILL following
	// SIGTERM after Grace; 0: never.
	Timeout, Grace time.Duration
	// Limit bounds what is kept of both streams together, in bytes. What comes
	// after that is counted and dropped.
	Limit int64
}

// frameJob is the type of the one frame that a job's keeper reads from stdin;
// frameStarted and frameFailed are those of its answer.
const (
	frameJob     = 'J'
	frameStarted = 'j' // uvarint pid
	frameFailed  = 'f' // step, uvarint errno
)

// Encode returns what a job's keeper is to read from its stdin. token tells its
// connection from others.
func (j *Job) Encode(token string) ([]byte, error) {
	o := order{Request: j.Request, token: token, seal: j.Seal}
	if !o.valid() || j.Keep || j.Terminal != nil {
		return nil, errors.New("keeper: a job needs a token, a seal, Path, Args and Dir, and can have neither Keep nor Terminal")
	}
	b := appendBool(o.encode(), j.Input)
	for _, v := range []int64{int64(j.Timeout), int64(j.Grace), j.Limit} {
		b = binary.AppendUvarint(b, uint64(max(v, 0)))
	}
	b = appendFrame(nil, frameJob, b)
	if len(b) > maxFrame {
		return nil, &StartError{Step: "exec", Errno: syscall.E2BIG}
	}
	return b, nil
}

// decodeJob reads the payload of a frameJob. token is that of its connection.
func decodeJob(payload []byte) (j *Job, token string, ok bool) {
	d := decoder{b: payload}
	o := d.order()
	j = &Job{Request: o.Request, Seal: o.seal, Input: d.bool()}
	for _, v := range []*int64{(*int64)(&j.Timeout), (*int64)(&j.Grace), &j.Limit} {
		*v = int64(d.uint(math.MaxInt64))
	}
	return j, o.token, d.end() && o.valid() && !j.Keep && j.Terminal == nil
}

// ParseJobAnswer reads the answer of a job's keeper off the front of b: the
// command's pid, or a [*StartError] when nothing was run. whole is false when b
// holds only the beginning of one.
func ParseJobAnswer(b []byte) (pid int, whole bool, err error) {
	f, size, err := parseFrame(b)
	if err != nil || size == 0 {
		return 0, size > 0, err
	}
	d := decoder{b: f.payload}
	switch f.kind {
	case frameStarted:
		if pid = int(d.uint(maxPID)); d.end() {
			return pid, true, nil
		}
	case frameFailed:
		step, errno := d.string(), d.uint(4095)
		if d.end() && (step == "chdir" || step == "exec") {
			return 0, true, failure(step, int(errno))
		}
	}
	return 0, true, errMalformed
}

func startedAnswer(pid int) []byte {
	return appendFrame(nil, frameStarted, binary.AppendUvarint(nil, uint64(pid)))
}

func failedAnswer(step string, errno syscall.Errno) []byte {
	return appendFrame(nil, frameFailed, binary.AppendUvarint(appendString(nil, step), uint64(errno)))
}

// What may be written to [JobControl]. Each is far below PIPE_BUF (pipe(7)), so
// it arrives whole or not at all, whatever becomes of who writes it.

// JobSignal sends a signal to the command and its group.
func JobSignal(signal int) []byte {
	return appendFrame(nil, frameSignal, binary.AppendUvarint(nil, uint64(max(signal, 0))))
}

// JobStop ends the command and all it started: SIGTERM, SIGKILL after grace.
func JobStop(grace time.Duration) []byte { return appendFrame(nil, frameStop, stopFrame(grace)) }

// JobEndInput ends the command's stdin, once it has read what was written.
func JobEndInput() []byte { return appendFrame(nil, frameEOF, nil) }

// JobEnd is how a job has ended.
type JobEnd struct {
	Status
	// TimedOut: its Timeout has ended it.
	TimedOut bool
	// Stdout and Stderr say what there was of each.
	Stdout, Stderr JobStream
	// EndedAt is when, by the wall clock, and Duration how long it took.
	EndedAt  time.Time
	Duration time.Duration
}

// JobStream counts a stream, in bytes.
type JobStream struct{ Kept, Dropped int64 }

func (s *JobEnd) jobFields() []field {
	const long = 1 << 62
	return []field{
		{"timedout", flag(s.TimedOut), 1},
		{"stdout", s.Stdout.Kept, long},
		{"stdoutdropped", s.Stdout.Dropped, long},
		{"stderr", s.Stderr.Kept, long},
		{"stderrdropped", s.Stderr.Dropped, long},
		{"at", s.EndedAt.UnixNano(), math.MaxInt64},
		{"duration", int64(s.Duration), long},
	}
}

// jobBody is the content of [JobStatus] at the end.
func (s *JobEnd) jobBody(seal string) string {
	return string(appendFields([]byte(s.body(seal)+" job"), s.jobFields())) + "\n"
}

// MaxJobStatus bounds what a keeper writes to [JobStatus], in bytes.
const MaxJobStatus = 1024

// ParseJobEnd reads what a keeper has written to [JobStatus], strictly. ok is
// false for anything else, and for another seal than the job's: nobody but the
// keeper and who asked knows that.
func ParseJobEnd(text, seal string) (s JobEnd, ok bool) {
	if !wrapper.ValidToken(seal) || len(text) > MaxJobStatus {
		return s, false
	}
	end, rest, ok := strings.Cut(strings.TrimSuffix(text, "\n"), " job")
	if !ok {
		return s, false
	}
	if s.Status, ok = parseStatus(end, seal); !ok {
		return s, false
	}
	v, ok := valuesOf(rest, s.jobFields())
	if !ok {
		return s, false
	}
	s.TimedOut = v[0] == 1
	s.Stdout, s.Stderr = JobStream{v[1], v[2]}, JobStream{v[3], v[4]}
	s.EndedAt, s.Duration = time.Unix(0, v[5]), time.Duration(v[6])
	return s, s.jobBody(seal) == text
}
