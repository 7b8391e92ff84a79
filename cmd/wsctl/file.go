//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/workspace"
)

const fileLong = `Read and change the files of a directory through a guard that no path leaves: not
by "..", not by a link, not while commands of a sandbox change the tree at the
same time. No engine is needed and no sandbox is started.

Paths are relative to --root, or absolute: as this machine sees the root, or
below /workspace as commands in a sandbox see it. Links are followed as those
commands would: an absolute link below /workspace leads into the root, any other
leads out and is OUTSIDE_ROOT. With --driver host, paths and links are those of
this machine. Only regular files are read and written; a FIFO or a device is
NOT_A_FILE at once. The state of wsctl, .wsctl, is closed to all verbs but trash.

A verb with several paths stops at the first failure. Names that begin with a
dash follow "--", or are written ./-name.

Exit status:
  0      done
  1      the operation failed; a line on standard error starts with its code
  125    it was called the wrong way, or the root cannot be opened
  128+n  signal n ended it
With --json standard output is one JSON object. The field "error" is there when,
and only when, it failed. A name that is not UTF-8 has U+FFFD in its text, and
its exact bytes in the field beside it that ends in Base64.`

const fileExample = `  wsctl file cat src/main.go
  git show HEAD:README.md | wsctl file write README.md
  wsctl file ls -l --root ~/src/app
  wsctl file rm -r --trash build`

func newFileCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "file VERB",
		Short:   "Read and change files through the guard, without an engine",
		Long:    fileLong,
		Example: fileExample,
		Args:    noVerb,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(
		newFileCatCommand(a),
		newFileWriteCommand(a, fileWrite),
		newFileWriteCommand(a, fileAppend),
		newFileLsCommand(a),
		newFileStatCommand(a),
		newFileRmCommand(a),
		newFileMvCommand(a),
		newFileCpCommand(a),
		newFileMkdirCommand(a),
		newFileLnCommand(a),
		newFileChmodCommand(a),
		newFileEditCommand(a),
		newFileTrashCommand(a),
	)
	return cmd
}

// reading runs a verb that changes nothing. Signals end it as they end any
// program.
func (a *app) reading(cmd *cobra.Command, o *treeOptions, verb func(context.Context, *tree) error) error {
	if err := o.check(cmd); err != nil {
		return err
	}
	t, err := a.openTree(o)
	if err != nil {
		return err
	}
	defer t.Close()
	err = verb(cmd.Context(), t)
	if errors.Is(err, syscall.EPIPE) {
		// Where SIGPIPE is ignored, nobody who reads is an error. The
		// status is the same.
		return exitStatus(exitSignal + int(syscall.SIGPIPE))
	}
	return err
}

// changing runs a verb that changes files. A signal ends the operation, which
// then leaves nothing half made.
func (a *app) changing(cmd *cobra.Command, o *treeOptions, verb func(context.Context, *tree) error) error {
	s, ctx := newStopper(cmd.Context(), 0, func(sig syscall.Signal) { os.Exit(exitSignal + int(sig)) })
	defer s.close()
	parent := cmd.Context()
	cmd.SetContext(ctx)
	defer cmd.SetContext(parent)
	err := a.reading(cmd, o, verb)
	if sig := s.signal(); sig != 0 && errors.Is(err, workspace.ErrAborted) {
		return &interruptedError{sig: sig, err: err}
	}
	return err
}

// done is what verbs with several paths print with --json: those they are done
// with, in order.
type done struct {
	Done  []doneItem `json:"done"`
	Error *failure   `json:"error,omitempty"`
}

// doneItem is a path that a verb is done with.
type doneItem struct {
	pathText
	// TrashID is what it can be restored by.
	TrashID string `json:"trashId,omitempty"`
}

// eachPath does an operation for one path after the other, up to the first
// failure.
func (a *app) eachPath(t *tree, paths []string, asJSON bool, operation func(name string, item *doneItem) error) error {
	result := done{Done: []doneItem{}}
	for _, path := range paths {
		item := doneItem{pathText: newPathText(path)}
		err := t.do(path, func(name string) error { return operation(name, &item) })
		if err != nil {
			result.Error = newFailure(err)
			return failedOperation(err, result)
		}
		result.Done = append(result.Done, item)
	}
	if asJSON {
		return a.ui.object(result)
	}
	return nil
}

// pathText is a path in JSON.
type pathText struct {
	Path       string `json:"path"`
	PathBase64 string `json:"pathBase64,omitempty"`
}

func newPathText(path string) pathText {
	valid, exact := text([]byte(path))
	return pathText{Path: valid, PathBase64: exact}
}
