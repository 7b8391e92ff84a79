package tools

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// EventKind says what an Event tells.
type EventKind string

const (
	// EventDecision is told before a call runs, and when it does not.
	EventDecision EventKind = "decision"
	// EventCall is told when a call has ended, also when its arguments were
	// refused.
	EventCall EventKind = "call"
)

// Event is what an audit is told of a call. It holds no content of files and no
// environment.
type Event struct {
	Time time.Time `json:"time"`
	Kind EventKind `json:"kind"`
	Tool string    `json:"tool"`
	Run  string    `json:"run"`
	Call string    `json:"call"`
	// Root is that of the workspace; empty: the call did not get so far.
	Root string `json:"root,omitempty"`

	// Paths and Command are what a decision was about.
	Paths   []string `json:"paths,omitempty"`
	Command string   `json:"command,omitempty"`
	// Decision is Allow or Deny, or Ask when the answer comes with a later
	// call; By who decided, Reason why.
	Decision Action `json:"decision,omitempty"`
	By       string `json:"by,omitempty"`
	Reason   string `json:"reason,omitempty"`

	// Code is why a call failed; empty: it did not.
	Code workspace.Code `json:"code,omitempty"`
	// Duration is how long the call took, Bytes the length of its result.
	Duration time.Duration `json:"durationNs,omitempty"`
	Bytes    int           `json:"bytes,omitempty"`
	// Saved is where a long result is.
	Saved string `json:"saved,omitempty"`
}

// maxAudited bounds each text of an Event, in bytes.
const maxAudited = 4 << 10

func (s *Set) audit(r Request, c *call, about subject, e Event) {
	if s.opts.Audit == nil {
		return
	}
	e.Time = time.Now()
	e.Tool, e.Run, e.Call = clip(r.Name, maxAudited), clip(r.Run, maxAudited), clip(r.ID, maxAudited)
	if c.ws != nil {
		e.Root = c.ws.Root()
	}
	for _, p := range append(about.paths[:len(about.paths):len(about.paths)], about.trees...) {
		e.Paths = append(e.Paths, clip(p, maxAudited))
	}
	e.Command, e.Reason = clip(about.command, maxAudited), clip(e.Reason, maxAudited)
	s.opts.Audit(e)
}

// auditEnd tells how a call has ended.
func (s *Set) auditEnd(r Request, c *call, result *Result, took time.Duration) {
	size := len(result.Text) + len(result.Structured)
	for _, b := range result.Images {
		size += len(b.Data)
	}
	s.audit(r, c, subject{}, Event{Kind: EventCall, Code: result.Code, Duration: took, Bytes: size, Saved: result.Path})
}

// AuditLog returns an Options.Audit that writes one line of JSON an event to w,
// one at a time. failed, when set, is told of a write that failed.
func AuditLog(w io.Writer, failed func(error)) func(Event) {
	var mu sync.Mutex
	return func(e Event) {
		line, err := json.Marshal(e)
		if err == nil {
			mu.Lock()
			_, err = w.Write(append(line, '\n'))
			mu.Unlock()
		}
		if err != nil && failed != nil {
			failed(err)
		}
	}
}
