//go:build !unix

package main

import (
	"context"
	"io"
)

// asOtherUser does nothing where there is no root to leave.
func asOtherUser(context.Context, options, *report, io.Writer) error { return nil }
