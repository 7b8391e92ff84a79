package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// fail tells of a failure: one line on standard error, and with --json the one
// object that standard output must hold.
func (a *app) fail(cmd *cobra.Command, args []string, err error) {
	a.ui.failure(err)
	if !wantsJSON(cmd, args) {
		return
	}
	var object any = struct {
		Error *failure `json:"error"`
	}{newFailure(err)}
	var command *commandError
	var operation *operationError
	var own *objectError
	switch {
	case errors.As(err, &own):
		object = own.object
	case errors.As(err, &operation) && operation.object != nil:
		object = operation.object
	case errors.As(err, &command):
		object = newResult(command.out, err)
	case cmd.Name() == "run", cmd.Name() == "exec":
		object = newResult(nil, err)
	}
	// Standard output may be what failed; the line above has been printed.
	_ = a.ui.object(object)
}

// wantsJSON reports whether --json was given, also where it stands after the
// flag that could not be read.
func wantsJSON(cmd *cobra.Command, args []string) bool {
	if f := cmd.Flags().Lookup("output"); f != nil {
		return f.Value.String() == outputJSON
	}
	if f := cmd.Flags().Lookup("json"); f == nil {
		return false
	} else if f.Changed {
		return f.Value.String() == "true"
	}
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}
