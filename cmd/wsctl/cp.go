//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

const cpLong = `Copy a file, or a directory with what it holds, between this machine and a workspace,
or between two workspaces. NAME:PATH is in a workspace, anything else on this machine;
a path of this machine that holds a colon is written ./a:b. "-" is standard input or
output. It goes through the guard on both sides, so that no link leads a file out of
the workspace or out of the directory it is copied to; the workspace need not run, and
may be paused.

Where DST is a directory the copy is made in it, under the same name. Files are
replaced, each whole or not at all; a directory that is there keeps what else it
holds. Links stay links; FIFOs, sockets and devices are left out, with a warning.`

const cpExample = `  wsctl cp src app:
  wsctl cp app:build/report.html .
  tar c docs | wsctl cp - app:docs.tar
  wsctl cp app:log.txt - | tail`

// transferOptions are the flags of cp.
type transferOptions struct {
	where whereOptions
	json  bool
}

// copied is what `wsctl cp --json` prints.
type copied struct {
	Files       int `json:"files"`
	Directories int `json:"directories"`
	Links       int `json:"links"`
	Skipped     int `json:"skipped"`
}

func newCpCommand(a *app) *cobra.Command {
	var o transferOptions
	cmd := &cobra.Command{
		Use:     "cp SRC DST",
		Short:   "Copy files into and out of workspaces",
		Long:    cpLong,
		Example: cpExample,
		Args:    takes(2, 2, "what to copy and where to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			done, err := a.cp(ctx, &o.where, args[0], args[1])
			if err != nil {
				return failedOperation(stopped(ctx, err), nil)
			}
			if o.json && args[1] != "-" {
				return a.ui.object(done)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object: what was copied")
	o.where.addFlags(cmd)
	return cmd
}

// end is one side of a copy: a name in a guarded tree.
type end struct {
	files workspace.Files
	name  string
	// called is what a copy in a directory is called; empty: what it holds is
	// copied, since a root has no name.
	called string
	close  func()
}

func (a *app) cp(ctx context.Context, where *whereOptions, from, to string) (copied, error) {
	if from == "-" && to == "-" {
		return copied{}, usagef("cp", "one side at most is -")
	}
	c := copier{warn: a.ui.warn}
	if to == "-" {
		src, err := a.end(ctx, where, from)
		if err != nil {
			return c.copied, err
		}
		defer src.close()
		out, flush := a.ui.stream(a.ui.out, a.ui.outTTY)
		defer flush()
		return c.copied, printFile(ctx, src, out)
	}
	dst, err := a.end(ctx, where, to)
	if err != nil {
		return c.copied, err
	}
	defer dst.close()
	c.dst = dst.files
	if from == "-" {
		_, err := dst.files.Write(ctx, dst.name, a.ui.in, workspace.WriteOptions{})
		c.Files++
		return c.copied, err
	}
	src, err := a.end(ctx, where, from)
	if err != nil {
		return c.copied, err
	}
	defer src.close()
	c.src = src.files
	if fi, err := dst.files.Stat(ctx, dst.name); err == nil && fi.IsDir() {
		dst.name = path.Join(dst.name, src.called)
	}
	fi, err := src.files.Stat(ctx, src.name)
	if err != nil {
		return c.copied, err
	}
	return c.copied, c.copy(ctx, src.name, dst.name, fi)
}

// end opens one side. A path of this machine is a name in the directory that holds
// it, out of which nothing leads.
func (a *app) end(ctx context.Context, where *whereOptions, text string) (end, error) {
	name, file, in := strings.Cut(text, ":")
	if in && name != "" && !strings.ContainsRune(name, '/') {
		ws, err := a.openIn(ctx, where, name, nil, 0)
		if err != nil {
			return end{}, err
		}
		if file == "" {
			file = "."
		}
		rel, err := ws.Rel(file)
		if err != nil {
			_ = ws.Close()
			return end{}, err
		}
		return end{ws.Driver().Files(), rel, called(rel), func() { _ = ws.Close() }}, nil
	}
	if text == "" {
		return end{}, usagef("cp", "a path is empty")
	}
	whole := absolute(text)
	dir, base := filepath.Split(whole)
	name = called(whole)
	if last := filepath.Base(text); last == "." || last == ".." || strings.HasSuffix(text, "/.") {
		name = ""
	}
	if fi, err := os.Stat(text); err == nil && fi.IsDir() || base == "" {
		// What it holds is reached below it, and its own name stays known.
		dir, base = whole, "."
	}
	root, err := host.OpenRoot(dir, host.RootOptions{LeftoverAge: -1, Logger: a.ui.logger()})
	if err != nil {
		return end{}, err
	}
	return end{root, base, name, func() { _ = root.Close() }}, nil
}

// called is the last part of a path, empty for a root.
func called(name string) string {
	if base := path.Base(name); base != "." && base != "/" {
		return base
	}
	return ""
}

// printFile writes a file to w.
func printFile(ctx context.Context, src end, w io.Writer) error {
	f, err := src.files.Open(ctx, src.name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(w, io.NewSectionReader(f, 0, maxSize)); err != nil {
		return workspace.Errorf(workspace.ErrIO, "cp", src.name, "%w", err)
	}
	return nil
}

// copier copies from one tree into another. Neither is believed: names come one by
// one from a listing, and each tree's guard keeps what it does inside.
type copier struct {
	src  workspace.FileReader
	dst  workspace.Files
	warn func(string, ...any)
	copied
}

// page is how many entries of a directory are asked for at once.
const page = 1000

func (c *copier) copy(ctx context.Context, from, to string, fi fs.FileInfo) error {
	switch {
	case fi.IsDir():
		return c.directory(ctx, from, to, fi)
	case fi.Mode().IsRegular():
		return c.file(ctx, from, to, fi)
	case fi.Mode().Type() == fs.ModeSymlink:
		return c.link(ctx, from, to)
	}
	c.Skipped++
	c.warn("%s is left out: it is no file, directory or link", workspace.Printable(from))
	return nil
}

func (c *copier) directory(ctx context.Context, from, to string, fi fs.FileInfo) error {
	if to != "." {
		if err := c.dst.Mkdir(ctx, to, workspace.MkdirOptions{Perm: fi.Mode().Perm() | 0o700, Parents: true}); err != nil {
			return err
		}
	}
	c.Directories++
	after := ""
	for {
		list, err := c.src.ReadDir(ctx, from, workspace.ListOptions{After: after, Limit: page})
		if err != nil {
			return err
		}
		for _, e := range list.Entries {
			info, err := e.Info()
			if err != nil {
				return err
			}
			if err := c.copy(ctx, path.Join(from, e.Name()), path.Join(to, e.Name()), info); err != nil {
				return err
			}
			after = e.Name()
		}
		if !list.More || len(list.Entries) == 0 {
			return nil
		}
	}
}

func (c *copier) file(ctx context.Context, from, to string, fi fs.FileInfo) error {
	f, err := c.src.Open(ctx, from)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = c.dst.Write(ctx, to, io.NewSectionReader(f, 0, maxSize), workspace.WriteOptions{Perm: fi.Mode().Perm()})
	if err == nil {
		c.Files++
	}
	return err
}

// link makes the same link, unless it would lead out of where it is made.
func (c *copier) link(ctx context.Context, from, to string) error {
	target, err := c.src.ReadLink(ctx, from)
	if err != nil {
		return err
	}
	err = c.dst.Symlink(ctx, target, to)
	if errors.Is(err, workspace.ErrExists) {
		if now, readErr := c.dst.ReadLink(ctx, to); readErr == nil && now == target {
			err = nil
		}
	}
	if errors.Is(err, workspace.ErrOutside) {
		c.Skipped++
		c.warn("%s is left out: it is a link that leads out of the directory it would be in", workspace.Printable(from))
		return nil
	}
	if err == nil {
		c.Links++
	}
	return err
}
