package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsctl/wsctl/workspace"
)

// Exit statuses that wsctl itself gives. A command's own status is passed on
// as it is.
const (
	exitOK = 0
	// exitCheckFailed is doctor's when a check fails.
	exitCheckFailed = 1
	// exitOperation is that of an operation on files that failed.
	exitOperation = 1
	// exitNothing and exitSearch are those of a search that finds nothing and
	// of one that failed, as of grep(1).
	exitNothing = 1
	exitSearch  = 2
	// exitFailure is wsctl's own failure, as that of env(1) and timeout(1):
	// no command gave it.
	exitFailure = 125
	// exitSignal is added to a signal's number, as shells do.
	exitSignal = 128
)

// exitStatus ends wsctl with that status and without a message: the verb has
// done its work and printed what there is to say.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// commandError is the failure of a verb that runs a command, with what is
// known of the command.
type commandError struct {
	out *workspace.Output // may be nil
	err error
}

func (e *commandError) Error() string { return e.err.Error() }
func (e *commandError) Unwrap() error { return e.err }

// interruptedError is the failure of a verb that a signal ended.
type interruptedError struct {
	sig syscall.Signal
	err error
}

func (e *interruptedError) Error() string { return e.err.Error() }
func (e *interruptedError) Unwrap() error { return e.err }

// operationError is the failure of an operation on files: its status is not
// that of wsctl's own failures.
type operationError struct {
	err error
	// object is what --json prints, the failure included; nil: the failure
	// alone.
	object any
	// status is the exit status; 0: exitOperation.
	status int
}

func (e *operationError) Error() string { return e.err.Error() }
func (e *operationError) Unwrap() error { return e.err }

// objectError is the failure of a verb that has an object of its own for --json.
type objectError struct {
	err    error
	object any // with the failure in it
}

func (e *objectError) Error() string { return e.err.Error() }
func (e *objectError) Unwrap() error { return e.err }

// failedOperation marks err, which may be nil, as that of an operation.
func failedOperation(err error, object any) error {
	if err == nil {
		return nil
	}
	return &operationError{err: err, object: object}
}

// failedSearch marks err, which may be nil, as that of a search, unless it is a
// status already.
func failedSearch(err error) error {
	var status exitStatus
	if err == nil || errors.As(err, &status) {
		return err
	}
	return &operationError{err: err, status: exitSearch}
}

// statusOf maps an error to the exit status: the only place where that is
// decided.
func statusOf(err error) int {
	var status exitStatus
	var interrupted *interruptedError
	var operation *operationError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &interrupted):
		return exitSignal + int(interrupted.sig)
	case errors.As(err, &operation):
		return cmp.Or(operation.status, exitOperation)
	}
	return exitFailure
}

// coded makes err a workspace error, so that its text starts with a code.
func coded(err error) error {
	if workspace.CodeOf(err) != "" {
		return err
	}
	return &workspace.Error{Code: workspace.ErrIO, Err: err}
}

// usagef is the failure of a verb that was called the wrong way.
func usagef(verb, format string, args ...any) error {
	return workspace.Errorf(workspace.ErrInvalidArgument, verb, "", format, args...)
}

// verbOf is a verb as it is written after wsctl: "run", "file cat"; "wsctl" for
// wsctl itself.
func verbOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// flagError tells what is wrong with a flag in one clear line.
func flagError(verb string, err error) error {
	help := "wsctl --help"
	if verb != "wsctl" {
		help = "wsctl " + verb + " --help"
	}
	var (
		value   *pflag.InvalidValueError
		missing *pflag.ValueRequiredError
		unknown *pflag.NotExistError
	)
	switch {
	case errors.As(err, &value):
		var e *workspace.Error
		if errors.As(value.Unwrap(), &e) {
			return e
		}
		return usagef(verb, "--%s %q: %w", value.GetFlag().Name, value.GetValue(), value.Unwrap())
	case errors.As(err, &missing):
		return usagef(verb, "--%s needs a value; see %s", missing.GetFlag().Name, help)
	case errors.As(err, &unknown):
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			name = name[1:]
		}
		if verb == "run" {
			help += ", and put -- before the command"
		}
		return usagef(verb, "there is no flag %s; see %s", name, help)
	}
	return usagef(verb, "%w; see %s", err, help)
}

// noVerb refuses a word that is no verb of cmd, which is wsctl or has verbs of
// its own.
func noVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	verb, advice := verbOf(cmd), "see "+cmd.CommandPath()+" --help"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		advice = "did you mean " + strings.Join(near, " or ") + "?"
	} else if !cmd.HasParent() {
		advice = "to run a command write wsctl run -- CMD, and " + advice
	}
	return usagef(verb, "there is no verb %q; %s", args[0], advice)
}

// noArguments refuses arguments of a verb that takes none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(verbOf(cmd), "%q is too much; it takes flags only", args[0])
	}
	return nil
}

// takes makes a check of the number of arguments; what says which are wanted.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef(verbOf(cmd), "give %s; see wsctl %s --help", what, verbOf(cmd))
		case most >= 0 && len(args) > most:
			return usagef(verbOf(cmd), "%q is too much; give %s", args[most], what)
		}
		return nil
	}
}
