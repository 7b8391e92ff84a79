//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// tree is a directory and the ways to it.
type tree struct {
	dir  string
	ws   *workspace.Workspace // ours
	held *host.Root           // the guard alone, as the container driver sets it
	root *os.Root             // the standard library's
}

func openTree() (_ *tree, err error) {
	dir, err := os.MkdirTemp("", "wsctl-bench-")
	if err != nil {
		return nil, err
	}
	t := &tree{dir: dir}
	defer func() {
		if err != nil {
			_ = t.close()
		}
	}()
	d, err := host.New(dir, host.Options{})
	if err != nil {
		return nil, err
	}
	if t.ws, err = workspace.New(d, workspace.Options{}); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if t.held, err = host.OpenRoot(dir, host.RootOptions{Guest: "/workspace", NoMounts: true}); err != nil {
		return nil, err
	}
	t.root, err = os.OpenRoot(dir)
	return t, err
}

func (t *tree) close() error {
	var errs []error
	if t.root != nil {
		errs = append(errs, t.root.Close())
	}
	if t.held != nil {
		errs = append(errs, t.held.Close())
	}
	if t.ws != nil {
		errs = append(errs, t.ws.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(t.dir))...)
}

func (t *tree) path(name string) string { return filepath.Join(t.dir, name) }

func measureFiles(ctx context.Context, r *report, _ options) error {
	t, err := openTree()
	if err != nil {
		return err
	}
	for _, measure := range []func(context.Context, *report) error{t.reads, t.stats, t.writes, t.lists, t.removes} {
		if err := measure(ctx, r); err != nil {
			return errors.Join(err, t.close())
		}
	}
	return t.close()
}

// depths are the names of the file that is read, by how many parts they have.
var depths = []struct {
	depth int
	name  string
}{{1, "file"}, {4, "a/b/c/file"}}

const smallFile = 4096 // bytes

func (t *tree) reads(ctx context.Context, r *report) error {
	for _, d := range depths {
		path := t.path(d.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, make([]byte, smallFile), 0o644); err != nil {
			return err
		}
		ours := &side{name: "Workspace.ReadFile", block: 500, call: func() error { _, err := t.ws.ReadFile(ctx, d.name, 0); return err }}
		std := &side{name: "os.ReadFile", block: 500, call: func() error { _, err := os.ReadFile(path); return err }}
		root := &side{name: "os.Root.ReadFile", block: 500, call: func() error { _, err := t.root.ReadFile(d.name); return err }}
		if err := alternate(ctx, 3*time.Second, ours, std, root); err != nil {
			return err
		}
		r.compared(fmt.Sprintf("read 4 KiB, depth %d", d.depth), ours, std, root)
		r.add(bar{name: fmt.Sprintf("files.read-depth%d", d.depth), measured: ours.ratio(std, 0.5), limit: 1.8})
	}
	return nil
}

// stats are of the files that reads has made.
func (t *tree) stats(ctx context.Context, r *report) error {
	for _, d := range depths {
		path := t.path(d.name)
		ours := &side{name: "Workspace.Stat", block: 500, call: func() error { _, err := t.ws.Stat(ctx, d.name); return err }}
		std := &side{name: "os.Stat", block: 500, call: func() error { _, err := os.Stat(path); return err }}
		root := &side{name: "os.Root.Stat", block: 500, call: func() error { _, err := t.root.Stat(d.name); return err }}
		held := &side{name: "host.Root.Stat in a container's", block: 500, call: func() error { _, err := t.held.Stat(ctx, d.name); return err }}
		if err := alternate(ctx, 2*time.Second, ours, std, held, root); err != nil {
			return err
		}
		r.compared(fmt.Sprintf("stat, depth %d", d.depth), ours, std, held, root)
		r.add(bar{name: fmt.Sprintf("files.stat-depth%d", d.depth), measured: ours.ratio(std, 0.5), limit: 1.8})
	}
	return nil
}

func (t *tree) writes(ctx context.Context, r *report) error {
	content := make([]byte, smallFile)
	for _, name := range []string{"written", "written-by-hand"} {
		if err := os.WriteFile(t.path(name), content, 0o644); err != nil {
			return err
		}
	}
	ours := &side{name: "Workspace.WriteFile", block: 10, call: func() error {
		_, err := t.ws.WriteFile(ctx, "written", content, workspace.WriteOptions{})
		return err
	}}
	byHand := &side{name: "by hand", block: 10, call: func() error { return t.writeByHand("written-by-hand", content) }}
	if err := alternate(ctx, 7*time.Second, ours, byHand); err != nil {
		return err
	}
	r.compared("durable write of 4 KiB", ours, byHand)
	r.add(bar{name: "files.write", measured: ours.ratio(byHand, 0.5), limit: 1.3})
	return nil
}

// writeByHand replaces a file so that a crash leaves the old or the new one.
func (t *tree) writeByHand(name string, content []byte) error {
	f, err := os.CreateTemp(t.dir, "."+name+"-")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), t.path(name)); err != nil {
		return err
	}
	d, err := os.Open(t.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (t *tree) lists(ctx context.Context, r *report) error {
	const entries = 10_000
	if err := t.fill("list", entries); err != nil {
		return err
	}
	defer os.RemoveAll(t.path("list"))
	count := func(n int, err error) error {
		if err == nil && n != entries {
			err = fmt.Errorf("%d entries listed, not %d", n, entries)
		}
		return err
	}
	ours := &side{name: "Workspace.ReadDir", call: func() error {
		list, err := t.ws.ReadDir(ctx, "list", workspace.ListOptions{})
		return count(len(list.Entries), err)
	}}
	std := &side{name: "os.ReadDir and Info of each", call: func() error {
		entries, err := os.ReadDir(t.path("list"))
		for _, e := range entries {
			if _, err := e.Info(); err != nil {
				return err
			}
		}
		return count(len(entries), err)
	}}
	root := &side{name: "os.Root.Open, ReadDir and Info", call: func() error {
		d, err := t.root.Open("list")
		if err != nil {
			return err
		}
		defer d.Close()
		entries, err := d.ReadDir(-1)
		for _, e := range entries {
			if _, err := e.Info(); err != nil {
				return err
			}
		}
		return count(len(entries), err)
	}}
	if err := alternate(ctx, 7*time.Second, ours, std, root); err != nil {
		return err
	}
	r.compared("list 10,000 entries, described", ours, std, root)
	r.add(bar{name: "files.list", measured: ours.ratio(std, 0.5), limit: 1.3})
	return nil
}

func (t *tree) removes(ctx context.Context, r *report) error {
	const directories, filesEach = 100, 200
	grow := func(name string) func() error {
		return func() error {
			for i := range directories {
				if err := t.fill(fmt.Sprintf("%s/%d", name, i), filesEach); err != nil {
					return err
				}
			}
			// What was made is not written out while its removal is timed.
			unix.Sync()
			return nil
		}
	}
	ours := &side{name: "Workspace.Remove", prepare: grow("ours"), call: func() error {
		return t.ws.Remove(ctx, "ours", workspace.RemoveOptions{Recursive: true})
	}}
	std := &side{name: "os.RemoveAll", prepare: grow("std"), call: func() error { return os.RemoveAll(t.path("std")) }}
	root := &side{name: "os.Root.RemoveAll", prepare: grow("root"), call: func() error { return t.root.RemoveAll("root") }}
	if err := alternate(ctx, 17*time.Second, ours, std, root); err != nil {
		return err
	}
	r.compared("remove 20,000 files in 100 dirs", ours, std, root)
	r.add(bar{name: "files.remove", measured: ours.ratio(std, 0.5), limit: 1.5})
	return nil
}

// fill makes a directory of n empty files.
func (t *tree) fill(name string, n int) error {
	if err := os.MkdirAll(t.path(name), 0o755); err != nil {
		return err
	}
	for i := range n {
		f, err := os.OpenFile(filepath.Join(t.path(name), fmt.Sprintf("file-%06d", i)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
