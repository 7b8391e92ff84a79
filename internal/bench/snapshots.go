//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// edits is how many files are changed between two snapshots.
const edits = 10

// sourceTree is a copy of the Go tree, as a project that is worked on, with what
// keeps states of it: our store, a git repository and, where it is installed, one
// of restic's.
type sourceTree struct {
	ctx              context.Context //nolint:containedctx // the life of one measurement
	base, dir        string
	store, git, rest string
	files            []string
	edited           int
}

func openSourceTree(ctx context.Context) (*sourceTree, error) {
	base, err := os.MkdirTemp("", "wsctl-bench-")
	if err != nil {
		return nil, err
	}
	t := &sourceTree{ctx: ctx, base: base, dir: filepath.Join(base, "tree")}
	t.store, t.git, t.rest = filepath.Join(base, "store"), filepath.Join(base, "git"), filepath.Join(base, "restic")
	if err := t.fill(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// fill copies the Go tree without its programs.
func (t *sourceTree) fill() error {
	goroot, err := exec.CommandContext(t.ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	if err := t.run(nil, "cp", "-a", strings.TrimSpace(string(goroot)), t.dir); err != nil {
		return err
	}
	for _, name := range []string{"pkg/tool", "bin", ".git"} {
		if err := os.RemoveAll(filepath.Join(t.dir, name)); err != nil {
			return err
		}
	}
	err = filepath.WalkDir(t.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasSuffix(path, ".go") {
			t.files = append(t.files, path)
		}
		return err
	})
	slices.Sort(t.files)
	if err != nil || len(t.files) < 100*edits {
		return errors.Join(err, fmt.Errorf("the Go tree has %d source files", len(t.files)))
	}
	return t.run(nil, "sync", "-f", t.dir)
}

func (t *sourceTree) close() error { return os.RemoveAll(t.base) }

// run runs a program to its end.
func (t *sourceTree) run(env []string, name string, args ...string) error {
	cmd := exec.CommandContext(t.ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

func (t *sourceTree) gitRun(args ...string) error {
	return t.run([]string{"GIT_DIR=" + t.git, "GIT_WORK_TREE=" + t.dir, "GIT_CONFIG_NOSYSTEM=1", "HOME=" + t.base}, "git", append([]string{"-C", t.dir}, args...)...)
}

func (t *sourceTree) resticRun(args ...string) error {
	return t.run([]string{"RESTIC_PASSWORD=x", "RESTIC_REPOSITORY=" + t.rest, "HOME=" + t.base, "XDG_CACHE_HOME=" + t.base}, "restic", args...)
}

func (t *sourceTree) newGit() error {
	if err := os.RemoveAll(t.git); err != nil {
		return err
	}
	return t.gitRun("init", "-q")
}

// ours opens root and store, as a process does that takes one snapshot, and does
// one thing.
func (t *sourceTree) ours(do func(s *snapshot.Snapshots) error) error {
	root, err := host.OpenRoot(t.dir, host.RootOptions{LeftoverAge: -1})
	if err != nil {
		return err
	}
	defer root.Close()
	store, err := snapshot.Open(root, snapshot.Place{Dir: t.store})
	if err != nil {
		return err
	}
	defer store.Close()
	s, err := snapshot.New(root, store, snapshot.Options{})
	if err != nil {
		return err
	}
	return do(s)
}

func (t *sourceTree) save() error {
	return t.ours(func(s *snapshot.Snapshots) error {
		_, err := s.Save(t.ctx, workspace.SaveOptions{})
		return err
	})
}

// edit appends a line to ten files, other ones each time.
func (t *sourceTree) edit() error {
	for range edits {
		t.edited = (t.edited + len(t.files)/edits/7) % len(t.files)
		f, err := os.OpenFile(t.files[t.edited], os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(f, "\n// %d\n", time.Now().UnixNano())
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func measureSnapshots(ctx context.Context, r *report, _ options) error {
	t, err := openSourceTree(ctx)
	if err != nil {
		return err
	}
	err = t.measure(r)
	return errors.Join(err, t.close())
}

func (t *sourceTree) measure(r *report) error {
	first := &side{name: "Save", prepare: func() error { return os.RemoveAll(t.store) }, call: t.save}
	gitFirst := &side{name: "git add -A", prepare: t.newGit, call: func() error { return t.gitRun("add", "-A") }}
	if err := alternate(t.ctx, 10*time.Second, first, gitFirst); err != nil {
		return err
	}
	r.compared(fmt.Sprintf("first, %d source files and others", len(t.files)), first, gitFirst)
	r.add(bar{name: "snapshots.first", measured: first.ratio(gitFirst, 0.5), limit: 0.6})
	if err := t.size(r); err != nil {
		return err
	}

	same := &side{name: "Save", block: 5, call: t.save}
	gitSame := &side{name: "git add -A", block: 5, call: func() error { return t.gitRun("add", "-A") }}
	if err := alternate(t.ctx, 4*time.Second, same, gitSame); err != nil {
		return err
	}
	r.compared("unchanged", same, gitSame)
	r.add(bar{name: "snapshots.unchanged", measured: same.ratio(gitSame, 0.5), limit: 1.5})

	few := &side{name: "Save", prepare: t.edit, call: t.save}
	gitFew := &side{name: "git add -A", prepare: t.edit, call: func() error { return t.gitRun("add", "-A") }}
	if err := alternate(t.ctx, 4*time.Second, few, gitFew); err != nil {
		return err
	}
	r.compared("after 10 edits", few, gitFew)
	r.add(bar{name: "snapshots.edits", measured: few.ratio(gitFew, 0.5), limit: 1.6})
	return t.restores(r, same)
}

// restores measures restores of ten changes against a save that finds none.
func (t *sourceTree) restores(r *report, same *side) error {
	if err := t.save(); err != nil {
		return err
	}
	// Backups are newer than the snapshot that is gone back to.
	var id string
	if err := t.ours(func(s *snapshot.Snapshots) error {
		one, err := s.Get(t.ctx, snapshot.Latest)
		id = one.ID
		return err
	}); err != nil {
		return err
	}
	restore := func(o workspace.RestoreOptions) func() error {
		return func() error {
			return t.ours(func(s *snapshot.Snapshots) error {
				done, err := s.Restore(t.ctx, id, o)
				if err == nil && len(done.Restored) != edits {
					err = fmt.Errorf("%d files were restored", len(done.Restored))
				}
				return err
			})
		}
	}
	again := &side{name: "Save, unchanged", call: t.save}
	dry := &side{name: "dry run", prepare: t.edit, call: restore(workspace.RestoreOptions{DryRun: true})}
	real := &side{name: "restore, the state before saved", call: restore(workspace.RestoreOptions{})}
	if err := alternateInOrder(t.ctx, 4*time.Second, again, dry, real); err != nil {
		return err
	}
	r.compared("restore of 10 edits", real, again)
	r.compared("its dry run", dry, again)
	r.add(bar{name: "snapshots.restore", measured: real.ratio(again, 0.5), limit: 2})
	r.add(bar{name: "snapshots.dry-run", measured: dry.ratio(again, 0.5), limit: 2})
	return nil
}

// alternateInOrder is alternate for sides that need what the one before left.
func alternateInOrder(ctx context.Context, budget time.Duration, sides ...*side) error {
	for begun := time.Now(); time.Since(begun) < budget; {
		for _, s := range sides {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.turn(clockCost()); err != nil {
				return err
			}
		}
	}
	return nil
}

// size compares what the first snapshot takes with restic, and prints restic's
// times.
func (t *sourceTree) size(r *report) error {
	ours, err := length(t.store)
	if err != nil {
		return err
	}
	inGit, err := length(t.git)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("restic"); err != nil {
		r.line("restic is not installed (Debian has it); the store's size has no peer: %d bytes, git's %d", ours, inGit)
		return nil
	}
	if err := t.resticRun("init", "-q"); err != nil {
		return err
	}
	backup := &side{name: "restic backup", call: func() error { return t.resticRun("backup", "-q", t.dir) }}
	if err := backup.turn(0); err != nil {
		return err
	}
	theirs, err := length(t.rest)
	if err != nil {
		return err
	}
	if err := backup.turn(0); err != nil {
		return err
	}
	r.line("restic backup: %s first, %s unchanged", short(backup.times[0]), short(backup.times[1]))
	r.line("size of the first snapshot: %d bytes, restic's %d, git's %d", ours, theirs, inGit)
	r.add(bar{name: "snapshots.size", measured: float64(ours) / float64(theirs), limit: 1.1})
	return nil
}

// length is that of all files below dir.
func length(dir string) (int64, error) {
	total := int64(0)
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			total += fi.Size()
		}
		return err
	})
	return total, err
}
