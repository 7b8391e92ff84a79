//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/workspace"
)

const fileWriteLong = `Write standard input, or the file --from of this machine, to a file, whole or not
at all: the content goes to a temporary file beside it, is flushed to the disk,
and takes the name in one step. Whatever fails, the old file is there or the new
one. Directories above it are made. A file that is there keeps its mode, its
hard links elsewhere keep the old content, and a link is written through to
where it leads inside the root.

Nothing is printed, with --json what the file is then. --if-version is CONFLICT
unless the file still has the version that "stat" or "cat --json" told; a change
by somebody else while the write goes on is CONFLICT too.`

const fileAppendLong = `Add standard input, or the file --from of this machine, to the end of a file,
which is made when it is missing. It is done as "write" does it, whole or not at
all, so it costs the time and the room of a copy of the file.`

// writeVerb is write, or append.
type writeVerb struct {
	name, short, long, example string
	append                     bool
}

var (
	fileWrite = writeVerb{
		name: "write", short: "Write a file, whole or not at all", long: fileWriteLong,
		example: "  wsctl file write notes.txt <draft.txt\n" +
			"  wsctl file write --from /etc/hosts --mode 600 hosts\n" +
			"  wsctl file cat a.txt | sed s/x/y/ | wsctl file write --if-version \"$(wsctl file stat --json a.txt | jq -r .version)\" a.txt",
	}
	fileAppend = writeVerb{
		name: "append", short: "Add to the end of a file", long: fileAppendLong, append: true,
		example: "  date | wsctl file append log.txt\n  wsctl file append --from more.txt all.txt",
	}
)

// writeOptions are the flags of file write and file append.
type writeOptions struct {
	tree             treeOptions
	from             string
	mode             permissions
	force, exclusive bool
	ifVersion        string
	maxBytes         size
}

func newFileWriteCommand(a *app, verb writeVerb) *cobra.Command {
	var o writeOptions
	o.maxBytes.least, o.maxBytes.most = 1, maxSize
	cmd := &cobra.Command{
		Use:               verb.name + " [flags] PATH",
		Short:             verb.short,
		Long:              verb.long,
		Example:           verb.example,
		Args:              takes(1, 1, "one path"),
		ValidArgsFunction: a.completePath(&o.tree),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.write(cmd, verb, &o, args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "the content is that of this `FILE` of this machine, inside the root or not (default: standard input)")
	_ = cmd.MarkFlagFilename("from")
	f.Var(&o.mode, "mode", "permissions of a new file, less the umask (default 666)")
	f.BoolVar(&o.force, "force", false, "replace a file that may not be written")
	if verb.append {
		o.tree.addHardLinks(cmd)
	} else {
		f.BoolVar(&o.exclusive, "exclusive", false, "fail with EXISTS when something has the name")
	}
	f.StringVar(&o.ifVersion, "if-version", "", "fail with CONFLICT unless the file has this `VERSION`")
	f.Var(&o.maxBytes, "max-bytes", "fail with TOO_LARGE when there is more to write (default: no limit)")
	o.tree.addFlags(cmd)
	return cmd
}

// check refuses flags that make no sense.
func (o *writeOptions) check(cmd *cobra.Command) error {
	for _, name := range []string{"from", "if-version"} {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return usagef(verbOf(cmd), "--%s is empty; give a value, or leave it out", name)
		}
	}
	if o.mode.set && o.mode.value == 0 {
		return usagef(verbOf(cmd), "--mode 000 makes a file that nobody can use; write it and use chmod")
	}
	return nil
}

func (a *app) write(cmd *cobra.Command, verb writeVerb, o *writeOptions, path string) error {
	if err := o.check(cmd); err != nil {
		return err
	}
	in, name := a.ui.in, "standard input"
	if o.from != "" {
		file, err := os.Open(o.from)
		if err != nil {
			return failedOperation(sourceError("--from", err), nil)
		}
		defer file.Close()
		in, name = file, "--from"
	}
	return a.changing(cmd, &o.tree, func(ctx context.Context, t *tree) error {
		source, err := newSource(ctx, in, name)
		if err != nil {
			return failedOperation(err, nil)
		}
		var fi fs.FileInfo
		err = t.do(path, func(name string) (err error) {
			fi, err = t.Write(ctx, name, source, workspace.WriteOptions{
				Perm: o.mode.value, Force: o.force, Exclusive: o.exclusive, Append: verb.append,
				IfVersion: o.ifVersion, MaxBytes: o.maxBytes.value,
			})
			return err
		})
		return a.wrote(path, fi, err, o.tree.json)
	})
}

// wrote tells of a file that was written.
func (a *app) wrote(path string, fi fs.FileInfo, err error, asJSON bool) error {
	if err != nil {
		return failedOperation(err, nil)
	}
	if asJSON {
		return a.ui.object(pathFacts{newPathText(path), newFacts(fi)})
	}
	return nil
}

// sourceError is a failure of what is read to be written.
func sourceError(name string, err error) error {
	code := workspace.ErrIO
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = workspace.ErrNotFound
	case errors.Is(err, fs.ErrPermission):
		code = workspace.ErrDenied
	}
	return workspace.Errorf(code, "", "", "%s: %w", name, err)
}

// source reads what is to be written, and stops when its context ends: reading
// a pipe or a terminal may take for ever.
type source struct {
	ctx    context.Context //nolint:containedctx // the life of one write
	name   string
	chunks chan chunk
	rest   chunk
}

type chunk struct {
	bytes []byte
	err   error
}

func newSource(ctx context.Context, in *os.File, name string) (io.Reader, error) {
	fi, err := in.Stat()
	switch {
	case err != nil:
		return nil, sourceError(name, err)
	case fi.IsDir():
		return nil, workspace.Errorf(workspace.ErrNotFile, "", "", "%s is a directory", name)
	}
	s := &source{ctx: ctx, name: name, chunks: make(chan chunk)}
	// It may stay in a read that never returns; it ends with the program.
	go s.feed(in)
	return s, nil
}

func (s *source) feed(in io.Reader) {
	// One is read from while the other is filled: a chunk is asked for once
	// the one before it has been used up.
	var buffers [2][]byte
	for i := range buffers {
		buffers[i] = make([]byte, 128<<10)
	}
	for i := 0; ; i++ {
		n, err := in.Read(buffers[i%2])
		select {
		case s.chunks <- chunk{buffers[i%2][:n], err}:
		case <-s.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *source) Read(b []byte) (int, error) {
	for len(s.rest.bytes) == 0 {
		if err := s.rest.err; err == io.EOF {
			return 0, err
		} else if err != nil {
			return 0, workspace.Errorf(workspace.ErrIO, "", "", "%s: %w", s.name, err)
		}
		select {
		case s.rest = <-s.chunks:
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		}
	}
	n := copy(b, s.rest.bytes)
	s.rest.bytes = s.rest.bytes[n:]
	return n, nil
}
