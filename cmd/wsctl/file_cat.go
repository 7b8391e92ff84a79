//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/workspace"
)

const fileCatLong = `Print files, one after the other, byte for byte and in constant memory. To a
terminal they go as text: what would drive the terminal is shown as an escape.
With --offset or --length it is that part of one file; beyond its end is
nothing.

With --json the content is the field "content", and "contentBase64" holds the
exact bytes where they are not UTF-8; it is at most --max-bytes. "version" is
what "write --if-version" takes: that of the file before it was read.`

const fileCatExample = `  wsctl file cat README.md
  wsctl file cat --offset 1m --length 64k big.log
  wsctl file cat --json go.mod | jq -r .files[0].version`

// catOptions are the flags of file cat.
type catOptions struct {
	tree           treeOptions
	offset, length size
	maxBytes       size
}

// maxSize is more than any file has.
const maxSize = math.MaxInt64 / 2

func newFileCatCommand(a *app) *cobra.Command {
	var o catOptions
	o.offset.most, o.length.most, o.maxBytes.most = maxSize, maxSize, maxSize
	o.maxBytes.least = 1
	cmd := &cobra.Command{
		Use:               "cat [flags] PATH…",
		Short:             "Print files",
		Long:              fileCatLong,
		Example:           fileCatExample,
		Args:              takes(1, -1, "at least one path"),
		ValidArgsFunction: a.completePath(&o.tree),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (o.offset.set || o.length.set) && len(args) > 1 {
				return usagef(verbOf(cmd), "--offset and --length are for one file, and there are %d", len(args))
			}
			return a.reading(cmd, &o.tree, func(ctx context.Context, t *tree) error {
				if o.tree.json {
					return a.catJSON(ctx, t, &o, args)
				}
				return a.cat(ctx, t, &o, args)
			})
		},
	}
	f := cmd.Flags()
	f.Var(&o.offset, "offset", "begin after so many bytes (default 0)")
	f.Var(&o.length, "length", "print at most so many bytes (default: to the end)")
	f.Var(&o.maxBytes, "max-bytes", "fail with TOO_LARGE when a file would print more (with --json: default 32MiB)")
	o.tree.addFlags(cmd)
	o.tree.addHardLinks(cmd)
	return cmd
}

// part is what is printed of a file: from, and at most length bytes.
type part struct {
	name         string
	file         workspace.File
	from, length int64
	limit        int64 // --max-bytes; 0: none
}

// open opens a file and checks how much it would print.
func (o *catOptions) open(ctx context.Context, t *tree, name string, limit int64) (*part, error) {
	file, err := t.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	p := &part{name: name, file: file, from: o.offset.value, length: maxSize, limit: limit}
	if o.length.set {
		p.length = o.length.value
	}
	fi, err := file.Stat()
	if err == nil && limit > 0 && min(fi.Size()-p.from, p.length) > limit {
		err = p.tooLarge()
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return p, nil
}

func (p *part) tooLarge() error {
	return workspace.Errorf(workspace.ErrTooLarge, "read", p.name, "it has more than %d bytes (--max-bytes); read it in parts with --offset and --length", p.limit)
}

// copyTo writes the part to w. A file that grows meanwhile does not get over
// the limit.
func (p *part) copyTo(ctx context.Context, w io.Writer) error {
	buf := make([]byte, 128<<10)
	at, end := p.from, p.from+p.length
	for at < end {
		if err := ctx.Err(); err != nil {
			return &workspace.Error{Code: workspace.ErrAborted, Op: "read", Path: p.name, Err: err}
		}
		n, err := p.file.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
		at += int64(n)
		if p.limit > 0 && at-p.from > p.limit {
			return p.tooLarge()
		}
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) cat(ctx context.Context, t *tree, o *catOptions, paths []string) error {
	w, flush := a.ui.stream(a.ui.out, a.ui.outTTY)
	defer flush()
	out := &output{to: w}
	for _, path := range paths {
		err := t.do(path, func(name string) error {
			p, err := o.open(ctx, t, name, o.maxBytes.value)
			if err != nil {
				return err
			}
			defer p.file.Close()
			return p.copyTo(ctx, out)
		})
		if out.err != nil {
			// It is not the file that failed.
			return workspace.Errorf(workspace.ErrIO, "", "", "standard output: %w", out.err)
		}
		if err != nil {
			return failedOperation(err, nil)
		}
	}
	return nil
}

// output remembers why a write failed.
type output struct {
	to  io.Writer
	err error
}

func (o *output) Write(b []byte) (n int, err error) {
	n, err = o.to.Write(b)
	o.err = err
	return n, err
}

// contents is what `wsctl file cat --json` prints.
type contents struct {
	Files []content `json:"files"`
	Error *failure  `json:"error,omitempty"`
}

type content struct {
	pathFacts
	// Offset is where Content begins.
	Offset        int64  `json:"offset"`
	Content       string `json:"content"`
	ContentBase64 string `json:"contentBase64,omitempty"`
}

func (a *app) catJSON(ctx context.Context, t *tree, o *catOptions, paths []string) error {
	limit := o.maxBytes.value
	if limit == 0 {
		limit = workspace.DefaultMaxFileBytes
	}
	all := contents{Files: []content{}}
	for _, path := range paths {
		err := t.do(path, func(name string) error {
			c, err := o.content(ctx, t, name, limit)
			if err != nil {
				return err
			}
			c.pathText = newPathText(path)
			all.Files = append(all.Files, *c)
			return nil
		})
		if err != nil {
			all.Error = newFailure(err)
			return failedOperation(err, all)
		}
	}
	return a.ui.object(all)
}

func (o *catOptions) content(ctx context.Context, t *tree, name string, limit int64) (*content, error) {
	p, err := o.open(ctx, t, name, limit)
	if err != nil {
		return nil, err
	}
	defer p.file.Close()
	// Before the content: a change meanwhile makes the version an old one,
	// which a write then refuses.
	fi, err := p.file.Stat()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := p.copyTo(ctx, &b); err != nil {
		return nil, err
	}
	c := &content{Offset: p.from}
	c.facts = newFacts(fi)
	c.Content, c.ContentBase64 = text(b.Bytes())
	return c, nil
}
