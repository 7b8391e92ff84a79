package workspace

import (
	"context"
	"time"
)

// Observer is told what is done in a workspace: to keep an audit log, to
// measure, to hold back commands that a budget has no room for. Its methods are
// called by many goroutines at once, in the caller's, so they must be quick.
type Observer interface {
	// Begin is asked before a command is checked or anything made ready for
	// it. Its error is the call's, and the command does not run.
	Begin(ctx context.Context, a Activity) error
	// End is told of a command that Begin let through, once it has ended, and
	// of every change of files, also of one that failed, before the call
	// returns.
	End(ctx context.Context, a Activity)
}

// Activity is one command or one change of files.
type Activity struct {
	// Op is exec, start or shell for commands; write, edit, mkdir, symlink, remove,
	// rename, copy or chmod for files; restore.
	Op string
	// Path is the path as the caller gave it, To the second one of a rename
	// or copy, the text of a link, or the id of a snapshot.
	Path, To string
	// Args or Shell are the command's, and Dir where it runs. Its
	// environment and input are not told: secrets travel in them.
	Args  []string
	Shell string
	Dir   string
	Began time.Time
	// Duration is how long it took; zero in Begin.
	Duration time.Duration
	// Exit is the status of a command that has ended; nil: there is none.
	Exit     *int
	TimedOut bool
	// Err is what the call returns.
	Err error
}

// beginCommand lets a command begin, unless the tree is being restored, tells the
// observer of it and returns what tells of its end.
func (w *Workspace) beginCommand(ctx context.Context, op string, c Command) (end func(exit *int, timedOut bool, err error), err error) {
	if err := w.commands.enter(op); err != nil {
		return nil, err
	}
	o := w.opts.Observer
	if o == nil {
		return func(*int, bool, error) { w.commands.leave() }, nil
	}
	a := Activity{Op: op, Args: c.Args, Shell: c.Shell, Dir: c.Dir, Began: time.Now()}
	if err := o.Begin(ctx, a); err != nil {
		w.commands.leave()
		return nil, wrap(err, ErrUnavailable, op, "")
	}
	return func(exit *int, timedOut bool, err error) {
		w.commands.leave()
		a.Duration = time.Since(a.Began)
		a.Exit, a.TimedOut, a.Err = exit, timedOut, err
		o.End(ctx, a)
	}, nil
}

// change returns what tells the observer of a change of files, with the error
// that the call returns:
//
//	defer w.change(ctx, "remove", path, "")(&err)
func (w *Workspace) change(ctx context.Context, op, path, to string) func(err *error) {
	o := w.opts.Observer
	if o == nil {
		return func(*error) {}
	}
	began := time.Now()
	return func(err *error) {
		o.End(ctx, Activity{Op: op, Path: path, To: to, Began: began, Duration: time.Since(began), Err: *err})
	}
}
