package orchestrator

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wsctl/wsctl/workspace"
)

// JobState is where a job is in its life.
type JobState string

// States of a job.
const (
	// JobStarting: written down, and not yet known to run.
	JobStarting JobState = "starting"
	// JobRunning: its command runs.
	JobRunning JobState = "running"
	// JobExited: its command has ended, and it is known how.
	JobExited JobState = "exited"
	// JobLost: it is over, and nobody can tell how: its container or its keeper
	// was killed, or the machine went down.
	JobLost JobState = "lost"
)

// JobSpec says what job is wanted. Either Args or Shell is given.
type JobSpec struct {
	Args  []string `json:"args,omitempty"`
	Shell string   `json:"shell,omitempty"`
	// Dir is as in workspace.Command.
	Dir string   `json:"dir,omitempty"`
	Env []string `json:"env,omitempty"`
	// Input gives it a standard input to write to; else that is empty.
	Input bool `json:"input,omitempty"`
	// Timeout ends the job, whoever is there; 0: never. KillGrace is as in
	// workspace.Command.
	Timeout   time.Duration `json:"timeoutNs,omitempty"`
	KillGrace time.Duration `json:"killGraceNs,omitempty"`
	// MaxOutput bounds what is kept of its output, in bytes; 0: the server's
	// limit, which it cannot exceed.
	MaxOutput int64 `json:"maxOutput,omitempty"`
	// Wait is how long the answer waits for the end of the job, which goes on
	// in the background after that: a soft timeout; 0: not at all.
	Wait time.Duration `json:"waitNs,omitempty"`
}

// Job is what is known of one. Its command and its output are as of a
// workspace.Output.
type Job struct {
	ID        string   `json:"id"`
	Workspace string   `json:"workspace"`
	Args      []string `json:"args,omitempty"`
	Shell     string   `json:"shell,omitempty"`
	Dir       string   `json:"dir,omitempty"`
	State     JobState `json:"state"`
	// Owner is the name of the token that it was started with.
	Owner   string        `json:"owner,omitempty"`
	Created time.Time     `json:"created"`
	Timeout time.Duration `json:"timeoutNs,omitempty"`
	// Input tells that it has a standard input which has not been ended.
	Input bool `json:"input,omitempty"`
	// MaxOutput bounds what is kept of its output, in bytes.
	MaxOutput int64     `json:"maxOutput"`
	Stdout    JobStream `json:"stdout"`
	Stderr    JobStream `json:"stderr"`

	// Ended and what follows are there when it is over, Exit and the rest when
	// it has exited.
	Ended *time.Time `json:"ended,omitempty"`
	Exit  *int       `json:"exit,omitempty"`
	// Signal is the number of the signal that ended it.
	Signal int `json:"signal,omitempty"`
	// TimedOut: its Timeout ended it. Stopped: that, or somebody, did.
	TimedOut bool          `json:"timedOut,omitempty"`
	Stopped  bool          `json:"stopped,omitempty"`
	Duration time.Duration `json:"durationNs,omitempty"`
	// Left is how many processes it left, which were ended.
	Left int `json:"left,omitempty"`
	// Detail says why it is lost, or what else there is to know.
	Detail string `json:"detail,omitempty"`
}

// JobStream counts what a job has written to a stream.
type JobStream struct {
	// Bytes are kept and can be read; Dropped came after the limit.
	Bytes   int64 `json:"bytes"`
	Dropped int64 `json:"dropped,omitempty"`
}

// Over tells whether the job has ended.
func (j Job) Over() bool { return j.State == JobExited || j.State == JobLost }

// JobQuery says what of a job's output is wanted.
type JobQuery struct {
	// Stdout and Stderr are the offsets to read from, in bytes; nil: that
	// stream is not wanted.
	Stdout, Stderr *int64
	// Limit bounds what is returned of each, in bytes; 0: MaxJobRead, which is
	// the most.
	Limit int
	// Wait is how long to wait for anything beyond the offsets, or the job's
	// end, MaxJobWait at most; 0: not at all.
	Wait time.Duration
}

// Bounds of a JobQuery, and of one piece of input.
const (
	MaxJobRead  = 1 << 20
	MaxJobWait  = 25 * time.Second
	MaxJobInput = 512 << 10
)

// JobOutput is a part of a job's output, with what is known of the job.
type JobOutput struct {
	Job    Job       `json:"job"`
	Stdout *JobChunk `json:"stdout,omitempty"`
	Stderr *JobChunk `json:"stderr,omitempty"`
}

// JobChunk is a part of a stream.
type JobChunk struct {
	// Offset is where it begins, and Data what there is from there on; to be
	// continued at Offset plus its length.
	Offset int64  `json:"offset"`
	Data   []byte `json:"data"`
	// End tells that nothing will ever follow.
	End bool `json:"end,omitempty"`
}

// JobInput is what is written to a job's standard input.
type JobInput struct {
	Data []byte `json:"data,omitempty"`
	// End ends the input after Data.
	End bool `json:"end,omitempty"`
}

// check refuses what makes no sense, before anything is started.
func (s JobSpec) check() error {
	const op = "job"
	for _, text := range append(append([]string{s.Shell, s.Dir}, s.Args...), s.Env...) {
		if !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) {
			return workspace.Errorf(workspace.ErrInvalidArgument, op, "", "the command %s is not UTF-8; have a script of the workspace hold such bytes", workspace.Printable(text))
		}
	}
	switch {
	case s.MaxOutput < 0, s.Timeout < 0 && s.Timeout != workspace.NoTimeout, s.Wait < 0:
		return workspace.Errorf(workspace.ErrInvalidArgument, op, "", "a limit or a time is negative; give a positive one, or 0 for the default")
	case s.Wait > workspace.MaxTimeout:
		return workspace.Errorf(workspace.ErrInvalidArgument, op, "", "a wait of %v is out of bounds; give up to %v", s.Wait, workspace.MaxTimeout)
	}
	return nil
}

// FindJob returns the one of list that ref names: its id, or the beginning of its
// id that no other has. NOT_FOUND, or INVALID_ARGUMENT when several have.
func FindJob(list []Job, ref string) (Job, error) {
	found, n := named(list, ref, func(j Job) (string, bool) { return j.ID, false })
	switch n {
	case 0:
		return found, noJob(ref)
	case 1:
		return found, nil
	}
	return Job{}, workspace.Errorf(workspace.ErrInvalidArgument, "find", ref, "%d jobs have ids that begin so; give more of it", n)
}

func noJob(ref string) error {
	return workspace.Errorf(workspace.ErrNotFound, "find", ref, "there is no such job here; wsctl job ls lists them")
}

// jobsMessage is a list of jobs, signalMessage and killMessage what is asked for,
// acceptedMessage how many bytes of input were taken.
type (
	jobsMessage struct {
		Jobs []Job `json:"jobs"`
	}
	signalMessage struct {
		Signal int `json:"signal"`
	}
	killMessage struct {
		Grace time.Duration `json:"graceNs,omitempty"`
	}
	acceptedMessage struct {
		Accepted int `json:"accepted"`
	}
)
