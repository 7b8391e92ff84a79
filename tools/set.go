package tools

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/wsctl/wsctl/workspace"
)

// Options are what a set of tools is and may do. The zero value is good: all
// tools, every call allowed.
type Options struct {
	// Tools are the names of the tools in the set; empty: all.
	Tools []string
	// Limits bound results and what is held in memory.
	Limits Limits
	// TextOnly leaves out structured results: all of a result's length is
	// then for its text.
	TextOnly bool

	// Policy says which calls are allowed; nil: all.
	Policy *Policy
	// Approve are the names of tools each of whose calls is asked about when
	// the policy allows it.
	Approve []string
	// RequireApproval, when set, has a call asked about that the policy
	// allows. It sees arguments that are good.
	RequireApproval func(name string, args json.RawMessage) bool
	// Ask, when set, asks somebody about a call. Request.Ask comes before.
	Ask Asker
	// Audit, when set, is told of every decision and of every call's end.
	// Calls at the same time call it at the same time.
	Audit func(Event)

	// Run names the directory of saved results; empty: a random name.
	Run string
	// Logger is told what no result says; nil: silent.
	Logger *slog.Logger
}

// Limits of a set. Zero is the default, of each.
type Limits struct {
	// MaxResultLength is the length over which a result is saved and cut,
	// in characters, of its text and its structured form together; 0:
	// DefaultMaxResultLength.
	MaxResultLength int
	// KeepResults is how long saved results are kept; 0:
	// DefaultKeepResults; negative: for ever.
	KeepResults time.Duration
	// CommandTimeout ends a command whose call gives none; 0:
	// DefaultCommandTimeout.
	CommandTimeout time.Duration
	// CommandOutput is how many bytes of each stream of a command a result
	// shows, half from the head and half from the tail; 0:
	// DefaultCommandOutput.
	CommandOutput int
	// SavedOutput bounds the output that is saved of one command, in
	// bytes; 0: DefaultSavedOutput.
	SavedOutput int64
	// Processes is how many started processes may run at once; 0:
	// DefaultProcesses.
	Processes int
	// ProcessOutput is how many bytes of a process's output are kept, the
	// latest; up to twice as many are. 0: DefaultProcessOutput.
	ProcessOutput int
	// Memory bounds what calls at the same time hold of files, in bytes;
	// 0: DefaultMemory. A call waits for its share.
	Memory int64
}

// Defaults of Limits.
const (
	DefaultMaxResultLength = 100_000
	DefaultKeepResults     = 7 * 24 * time.Hour
	DefaultCommandTimeout  = 2 * time.Minute
	DefaultCommandOutput   = 20_000
	DefaultSavedOutput     = 64 << 20
	DefaultProcesses       = 16
	DefaultProcessOutput   = 1 << 20
	DefaultMemory          = 256 << 20
)

// fill puts the defaults where nothing is set.
func (l *Limits) fill() error {
	if l.MaxResultLength < 0 || l.CommandTimeout < 0 || l.CommandOutput < 0 || l.SavedOutput < 0 ||
		l.Processes < 0 || l.ProcessOutput < 0 || l.Memory < 0 {
		return workspace.Errorf(workspace.ErrInvalidArgument, "tools", "", "a limit is negative; give 0 for its default")
	}
	orDefault(&l.MaxResultLength, DefaultMaxResultLength)
	orDefault(&l.KeepResults, DefaultKeepResults)
	orDefault(&l.CommandTimeout, DefaultCommandTimeout)
	orDefault(&l.CommandOutput, DefaultCommandOutput)
	orDefault(&l.SavedOutput, DefaultSavedOutput)
	orDefault(&l.Processes, DefaultProcesses)
	orDefault(&l.ProcessOutput, DefaultProcessOutput)
	orDefault(&l.Memory, DefaultMemory)
	return nil
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Set is tools that share a workspace, limits and a policy. Its methods are
// safe for concurrent use; one slow call holds up no other.
type Set struct {
	ws     *workspace.Workspace
	opts   Options
	tools  []*Tool
	memory *semaphore.Weighted

	processes processTable
	pruning   pruning
}

// NewSet returns tools over ws, or, when ws is nil, over the workspace in each
// call's context. The caller closes the set, and then the workspace.
func NewSet(ws *workspace.Workspace, o Options) (*Set, error) {
	if err := o.Limits.fill(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Run == "" {
		o.Run = "run-" + strings.ToLower(rand.Text())[:12]
	}
	if err := o.Policy.check(); err != nil {
		return nil, err
	}
	all := catalog()
	s := &Set{ws: ws, opts: o, memory: semaphore.NewWeighted(o.Limits.Memory)}
	for _, name := range slices.Concat(o.Tools, o.Approve) {
		if !slices.ContainsFunc(all, func(t *Tool) bool { return t.Name == name }) {
			return nil, workspace.Errorf(workspace.ErrInvalidArgument, "tools", "", "there is no tool %q; the tools are %s", name, strings.Join(Names(), ", "))
		}
	}
	for _, t := range all {
		if len(o.Tools) == 0 || slices.Contains(o.Tools, t.Name) {
			s.tools = append(s.tools, t)
		}
	}
	return s, nil
}

// Names are the names of all tools there are.
func Names() []string {
	var names []string
	for _, t := range catalog() {
		names = append(names, t.Name)
	}
	return names
}

// Tools are the tools of the set, in a fixed order.
func (s *Set) Tools() []*Tool { return slices.Clone(s.tools) }

// Tool returns the tool of that name, nil when the set has none.
func (s *Set) Tool(name string) *Tool {
	for _, t := range s.tools {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Close ends the processes that calls have started and returns when they are
// gone. The workspace stays open.
func (s *Set) Close() error { return s.processes.close() }

// Request is one call.
type Request struct {
	// Name is the tool's.
	Name string
	// Args is a JSON object; empty: none.
	Args json.RawMessage
	// Run and ID name the call in the audit and the file of a saved result;
	// empty: Options.Run, and a random one.
	Run, ID string
	// Progress, when set, is told what a running command writes, as it
	// comes, from one goroutine at a time. A Progress that blocks holds the
	// command back.
	Progress func(Progress)
	// Ask, when set, asks somebody about this call.
	Ask Asker
}

// Call runs a tool. The end of ctx ends it, and a command that it runs, with
// ABORTED. Every failure is a Result.
func (s *Set) Call(ctx context.Context, r Request) *Result {
	if r.Run == "" {
		r.Run = s.opts.Run
	}
	if r.ID == "" {
		r.ID = strings.ToLower(rand.Text())
	}
	began := time.Now()
	c := &call{set: s, run: r.Run, id: r.ID, progress: r.Progress}
	out, err := s.serve(ctx, r, c)
	result := c.result(ctx, out, err)
	s.auditEnd(r, c, result, time.Since(began))
	return result
}

// serve is the way of a call: its arguments, its workspace, its approval.
func (s *Set) serve(ctx context.Context, r Request, c *call) (out output, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.Logger.Error("a tool panicked", "tool", r.Name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			out, err = nil, workspace.Errorf(workspace.ErrIO, r.Name, "", "the tool failed by a fault of its own; the log tells more")
		}
	}()
	c.tool = s.Tool(r.Name)
	if c.tool == nil {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "", "", "there is no tool %q; the tools are %s", clip(r.Name, 80), s.names())
	}
	p, err := c.tool.prepare(r.Args)
	if err != nil {
		return nil, err
	}
	if c.ws, err = s.workspaceOf(ctx, r.Name); err != nil {
		return nil, err
	}
	if err := s.approve(ctx, r, c, p.subject); err != nil {
		return nil, err
	}
	return p.run(ctx, c)
}

func (s *Set) names() string {
	var names []string
	for _, t := range s.tools {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// failure is err with a code, whatever it is.
func failure(tool string, err error) *workspace.Error {
	var e *workspace.Error
	if errors.As(err, &e) {
		return e
	}
	code := workspace.ErrIO
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		code = workspace.ErrAborted
	}
	return &workspace.Error{Code: code, Op: tool, Err: err}
}

// hold waits for a share of the memory that calls at the same time may use for
// the content of files. release gives it back.
func (c *call) hold(ctx context.Context, size int64) (release func(), err error) {
	size = min(max(size, 0), c.set.opts.Limits.Memory)
	if err := c.set.memory.Acquire(ctx, size); err != nil {
		return nil, err
	}
	return func() { c.set.memory.Release(size) }, nil
}
