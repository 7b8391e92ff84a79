package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// A Driver is one way to have a workspace: a directory of this machine, a
// container, a server. Applications call *Workspace; only those who write a
// driver read this file. The conformance suite in workspace/drivertest holds
// every driver to it.
//
// What a Workspace has done before it calls a driver, so that no driver does
// it again: paths are spelled relative to the root (see Files); a Command is
// checked, its Dir exists and is a directory of the root, its Env holds the
// workspace's and the command's own entries with no name twice, Timeout has
// become the end of the context, KillGrace is what to wait (never negative),
// Background is set, and Stdin, Stdout, Stderr and MaxOutput are taken out of
// it into Streams. Errors are *Error values.
//
// All methods but Ready and Close may be called at any time and by many
// goroutines at once.
type Driver interface {
	// Descriptor tells what the workspace is. It is cheap and does no I/O.
	Descriptor() Descriptor
	// Files is the file tree. It works whether or not commands can run.
	Files() Files
	// Ready starts the place where commands run, or finds it running, or
	// recovers it, and verifies it. It is called before every command and
	// must be cheap when there is nothing to do. It is never called twice
	// at once. When ctx ends it leaves nothing half made.
	Ready(ctx context.Context) error
	// Run runs one command to its end and returns when the command itself
	// has exited, all it wrote has been given to the streams, and, with
	// BackgroundKill, nothing it started is alive, whoever holds its pipes.
	// When ctx ends first, everything the command started gets SIGTERM,
	// after c.KillGrace SIGKILL, and Run returns the Exit with Stopped set,
	// at the latest a second later, also when a stream's Write is blocked.
	// What c.Signals delivers goes to the command's group. RunStarted does
	// all of this for a Starter.
	// An error means that no trustworthy status is known; it is never made
	// up.
	Run(ctx context.Context, c Command, s Streams) (Exit, error)
	// Close ends everything, kept processes included, and releases the
	// driver. It is called once.
	Close() error
}

// Starter is a driver that can run a process for longer than one call.
type Starter interface {
	// Start starts c and returns at once. ctx bounds the start alone.
	// c.Terminal asks for a terminal; a driver without one answers
	// UNSUPPORTED.
	Start(ctx context.Context, c Command, s Streams) (Running, error)
}

// Running is a process that a Starter has started. Its methods may be called
// by many goroutines at once.
type Running interface {
	// Wait returns once the process has exited, what it left running is
	// gone (or kept, with BackgroundKeep), and all output has been given to
	// the streams. It returns the same each time.
	Wait() (Exit, error)
	// Signal sends sig to the process and its group. It is
	// os.ErrProcessDone once it has exited.
	Signal(sig syscall.Signal) error
	// Resize sets the size of its terminal.
	Resize(size TerminalSize) error
	// Stop ends it and everything it started: SIGTERM, SIGKILL after
	// grace. It returns once that is done, or after grace plus a second.
	Stop(grace time.Duration) error
}

// Ender is a Running that tells when Wait would return at once. It is optional; a
// command then needs no goroutine that waits for it.
type Ender interface {
	Done() <-chan struct{}
}

// endOf is closed when the process has ended and Wait would return at once.
func endOf(r Running) <-chan struct{} {
	if e, ok := r.(Ender); ok {
		return e.Done()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = r.Wait()
	}()
	return ended
}

// RunStarted is Run in terms of Start, for drivers that have both.
func RunStarted(ctx context.Context, d Starter, c Command, s Streams) (Exit, error) {
	r, err := d.Start(ctx, c, s)
	if err != nil {
		return Exit{}, err
	}
	ended := endOf(r)
	signals := c.Signals
	for running := true; running; {
		select {
		case <-ended:
			return r.Wait()
		case sig, open := <-signals:
			if !open {
				signals = nil
				continue
			}
			if n, err := asSignal(sig); err == nil {
				// A signal that comes as the command exits has nobody
				// to go to.
				_ = r.Signal(n)
			}
		case <-ctx.Done():
			running = false
		}
	}
	// A writer that blocks holds back the output, and with it the end of
	// Wait; the processes are gone all the same once Stop returns.
	stopErr := r.Stop(c.KillGrace)
	slack := time.NewTimer(stopSlack)
	defer slack.Stop()
	select {
	case <-ended:
		return r.Wait()
	case <-slack.C:
		go func() { _, _ = r.Wait() }() // the driver's own end of it
		return Exit{Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL, Stopped: true}, stopErr
	}
}

// stopSlack is how long RunStarted waits, after Stop, for the output that is
// still under way.
const stopSlack = 200 * time.Millisecond

// Descriptor is what a session records about where its commands ran.
type Descriptor struct {
	// Kind is one of the Kind constants.
	Kind string
	// Ref is what resolves to the same place: an image digest, a URL;
	// empty for the local machine.
	Ref string
	// Root is the root as the workspace's own processes see it.
	Root string
}

// Kinds of a Descriptor.
const (
	KindLocal     = "local"
	KindContainer = "container"
	KindRemote    = "remote"
)

// Realer is a driver whose root has a second absolute spelling: Real is the
// root with its links resolved.
type Realer interface{ Real() string }

// Files is a guarded file tree. No name leads out of it, whoever changes it at
// the same time.
//
// Names are relative to the root, with '/' between components; "." is the
// root. A name is not empty, not absolute, has no NUL byte and at most 4,095
// bytes; it is otherwise as the caller spelled it: ".." and repeated slashes
// may be in it, and ".." after a link means what the kernel says it means.
// A link is followed where it stays inside; an absolute link is followed when
// its target lies below Descriptor.Root.
//
// Every failure is an *Error whose Path is the name given. Operations work on
// what a name led to when it was first resolved: nothing is looked up twice.
type Files interface {
	FileReader
	FileWriter
}

// FileReader is the reading half of Files.
type FileReader interface {
	// Open opens a regular file. Anything else is NOT_A_FILE and is not
	// opened, so nothing blocks.
	Open(ctx context.Context, name string) (File, error)
	// Stat follows links, Lstat not the last one. The Sys of what they
	// return is a *FileStat.
	Stat(ctx context.Context, name string) (fs.FileInfo, error)
	Lstat(ctx context.Context, name string) (fs.FileInfo, error)
	// ReadLink returns the text of a link; INVALID_PATH when name is none.
	ReadLink(ctx context.Context, name string) (string, error)
	// ReadDir lists a directory sorted by name. The workspace's own state
	// is not listed. Entries tell Info without another look-up.
	ReadDir(ctx context.Context, name string, o ListOptions) (List, error)
}

// FileWriter is the changing half of Files.
type FileWriter interface {
	// Write replaces or makes a regular file with what r holds, atomically
	// and durably: whatever fails, the old file is there, whole, or the new.
	Write(ctx context.Context, name string, r io.Reader, o WriteOptions) (fs.FileInfo, error)
	// Edit replaces a file by what change makes of it. Edits and writes of
	// one file wait for each other, by whatever names they reach it; a
	// change from elsewhere between the read and the replacement is
	// CONFLICT. When change returns an error nothing is written and that
	// error is returned.
	Edit(ctx context.Context, name string, o EditOptions, change func(old []byte) ([]byte, error)) (fs.FileInfo, error)
	// Mkdir makes a directory; EXISTS when the name is taken, except that
	// with Parents an existing directory is success.
	Mkdir(ctx context.Context, name string, o MkdirOptions) error
	// Symlink makes link a symbolic link with text target. A target that
	// leads outside is OUTSIDE_ROOT.
	Symlink(ctx context.Context, target, link string) error
	// Remove removes a file, a link (never what it leads to) or a directory.
	Remove(ctx context.Context, name string, o RemoveOptions) error
	// Rename moves from to to; neither last component is followed.
	Rename(ctx context.Context, from, to string, o RenameOptions) error
	// Copy copies a regular file, its mode without special bits.
	Copy(ctx context.Context, from, to string, o WriteOptions) (fs.FileInfo, error)
	// Chmod sets the permission bits; special bits are INVALID_ARGUMENT.
	Chmod(ctx context.Context, name string, perm fs.FileMode) error
}

// File is an open regular file. Many goroutines may ReadAt at once.
type File interface {
	fs.File
	io.ReaderAt
	io.Seeker
}

// FileStat is what Sys of a FileInfo returns.
type FileStat struct {
	// Version changes when the file's content or place does; compare it
	// for equality only.
	Version string
	// ID tells two files of one workspace apart (device and inode).
	ID       string
	UID, GID uint32
	Links    uint64
	// Changed is when the content or the metadata last changed (ctime).
	Changed time.Time
}

// VersionOf returns the Version in fi, "" when it has none.
func VersionOf(fi fs.FileInfo) string {
	if st, ok := fi.Sys().(*FileStat); ok {
		return st.Version
	}
	return ""
}

// ListOptions bound one ReadDir.
type ListOptions struct {
	// After leaves out names up to and including it in the sort order, for
	// paging.
	After string
	// Limit is the largest number of entries; 0: all.
	Limit int
}

// List is one page of a directory.
type List struct {
	Entries []fs.DirEntry
	// More reports that entries follow the last one.
	More bool
}

// WriteOptions say how a file is written. The zero value replaces or creates.
type WriteOptions struct {
	// Perm are the permission bits of a new file, the umask applied; 0:
	// 0o666. An existing file keeps its mode.
	Perm fs.FileMode
	// Force replaces a file that its owner may not write.
	Force bool
	// Exclusive refuses an existing file with EXISTS.
	Exclusive bool
	// Append keeps the old content before the new.
	Append bool
	// IfVersion, when set, is the Version that the file must still have;
	// else CONFLICT.
	IfVersion string
	// MaxBytes bounds the new content: TOO_LARGE; 0: no bound.
	MaxBytes int64
}

// EditOptions say how a file is edited.
type EditOptions struct {
	// Force and IfVersion are as in WriteOptions.
	Force     bool
	IfVersion string
	// MaxBytes bounds what is read and what is written.
	MaxBytes int64
}

// MkdirOptions say how a directory is made.
type MkdirOptions struct {
	// Perm are the permission bits, the umask applied; 0: 0o777.
	Perm fs.FileMode
	// Parents makes missing directories above it, and makes an existing
	// directory a success. Never through a dangling link.
	Parents bool
}

// RemoveOptions say how something is removed.
type RemoveOptions struct {
	// Recursive removes a directory with what it holds; else a directory
	// that is not empty is NOT_EMPTY.
	Recursive bool
	// Trash moves it to the workspace's trash instead of deleting it.
	Trash bool
}

// RenameOptions say how something is moved.
type RenameOptions struct {
	// Overwrite replaces what has the new name: a file by a file, a
	// directory by a directory.
	Overwrite bool
}

// unsupported is the error of an ability that a driver does not have.
func unsupported(op, what string) *Error {
	return &Error{Code: ErrUnsupported, Op: op, Err: errors.New(what)}
}

// asSignal turns an os.Signal into the number a driver takes.
func asSignal(sig os.Signal) (syscall.Signal, error) {
	s, ok := sig.(syscall.Signal)
	if !ok || s <= 0 || s > 64 {
		return 0, Errorf(ErrInvalidArgument, "signal", "", "%v is not a signal of the workspace's system", sig)
	}
	return s, nil
}
