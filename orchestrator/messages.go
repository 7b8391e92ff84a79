package orchestrator

import "time"

// What both sides of the wire know: an orchestrator needs a Unix, its client
// does not.

// Change says what is to be different; nil leaves a thing as it is.
type Change struct {
	Name *string `json:"name,omitempty"`
	// Labels replaces those that it names; an empty value removes one.
	Labels map[string]string `json:"labels,omitempty"`
	// Limits of 0 stay.
	Limits  *Limits        `json:"limits,omitempty"`
	IdleTTL *time.Duration `json:"idleTtlNs,omitempty"`
	// TTL counts from when the workspace was made.
	TTL *time.Duration `json:"ttlNs,omitempty"`
}

// Upload is content that was uploaded to be the source of workspaces.
type Upload struct {
	// ID is the SHA-256 of the content, in hexadecimal digits.
	ID   string `json:"id"`
	Size int64  `json:"size"`
	// Expires is until when it can be used.
	Expires time.Time `json:"expires"`
}

// Event tells that something happened to a workspace.
type Event struct {
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`
	// Type is created, claimed, started, paused, resumed, stopped, updated,
	// removed, expired, job-started, job-ended or leak.
	Type      string            `json:"type"`
	Workspace string            `json:"workspace"`
	Name      string            `json:"name,omitempty"`
	Detail    string            `json:"detail,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// Entry is one line of the audit log: who did what, where, when, and what came
// of it.
type Entry struct {
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`
	// Who is the name and the id of the token, or how else they came in.
	Who       string `json:"who"`
	Token     string `json:"token,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	// Op is what was done: create, exec, write … An entry that ends with
	// ".begin" was written before the command ran.
	Op   string `json:"op"`
	Path string `json:"path,omitempty"`
	To   string `json:"to,omitempty"`
	// Args, or Shell, is the command, secrets blanked out.
	Args  []string `json:"args,omitempty"`
	Shell string   `json:"shell,omitempty"`
	Dir   string   `json:"dir,omitempty"`
	// Job is the id of the job that it is about.
	Job string `json:"job,omitempty"`
	// Exit is the status of a command that has one.
	Exit       *int    `json:"exit,omitempty"`
	TimedOut   bool    `json:"timedOut,omitempty"`
	DurationMS float64 `json:"durationMs,omitempty"`
	Bytes      int64   `json:"bytes,omitempty"`
	// Error is the code of a failure and its text.
	Error string `json:"error,omitempty"`
	// Prev is the Hash of the line before, Hash the SHA-256 of this line with
	// an empty Hash. A line that was changed, left out or put in breaks the
	// chain from there on.
	Prev string `json:"prev"`
	Hash string `json:"hash"`
}

// listMessage, eventsMessage and auditMessage are the answers that are lists.
type (
	listMessage struct {
		Workspaces []Workspace `json:"workspaces"`
	}
	eventsMessage struct {
		Events []Event `json:"events"`
	}
	auditMessage struct {
		Entries []Entry `json:"entries"`
		// Last is the number of the last entry, to go on after.
		Last int64 `json:"last"`
	}
	nothing struct{}
)
