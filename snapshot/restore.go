//go:build linux

package snapshot

import (
	"context"
	"slices"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

// Restore implements workspace.Snapshotter. The state before is saved by the
// snapshot's own rules, so that it has all that the restore may change; content
// that it does not have goes to the trash. An entry that somebody else changes
// after it was looked at is left alone and told in Kept. A restore that was
// interrupted is ended by the next one.
func (s *Snapshots) Restore(ctx context.Context, id string, o workspace.RestoreOptions) (workspace.Restored, error) {
	done, err := s.restore(ctx, id, o)
	if err != nil && done.Backup != "" {
		err = workspace.Errorf(workspace.CodeOf(err), "", "", "%w; the restore stopped part of the way: run it again, or go back with snapshot %s", reason(err), done.Backup)
	}
	return done, asError("restore", "", err)
}

func (s *Snapshots) restore(ctx context.Context, id string, o workspace.RestoreOptions) (done workspace.Restored, err error) {
	paths, err := cleanPaths(o.Paths)
	if err != nil {
		return done, err
	}
	in, err := s.store.shared(ctx)
	if err != nil {
		return done, err
	}
	defer in.end()
	target, err := s.store.record(ctx, id)
	if err != nil {
		return done, err
	}
	rules, err := newRules(target.MaxFileBytes, target.Exclude...)
	if err != nil {
		return done, err
	}
	now, err := s.take(ctx, in, rules, !o.DryRun && !o.NoBackup)
	if err != nil {
		return done, err
	}
	defer now.discard()
	p := newPlanner(ctx, in, &target, paths)
	plan, err := p.plan(now.top, target.top)
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return done, err
	}
	done = workspace.Restored{Snapshot: target.Snapshot, DryRun: o.DryRun, Restored: p.restored, Deleted: p.deleted, Kept: p.kept}
	if o.DryRun || p.changes == 0 {
		return done, nil
	}
	if !o.NoBackup {
		backup, err := now.keep(ctx, workspace.Snapshot{Label: "before restore of " + target.ID, Backup: true})
		if err != nil {
			return done, err
		}
		done.Backup = backup.ID
	}
	return done, s.apply(ctx, plan, p, &applier{in: in}, &done)
}

// apply carries the plan out and takes out of done what could not be done.
func (s *Snapshots) apply(ctx context.Context, plan *dirPlan, p *planner, a *applier, done *workspace.Restored) error {
	a.root, a.sync, a.failed = s.root, p.changes <= fewChanges, map[string]string{}
	err := a.directory(ctx, plan)
	if err == nil && !a.sync {
		err = s.root.Sync()
	}
	if len(a.failed) > 0 {
		failed := func(name string) bool { _, ok := a.failed[name]; return ok }
		done.Restored = slices.DeleteFunc(done.Restored, failed)
		done.Deleted = slices.DeleteFunc(done.Deleted, failed)
		for name, why := range a.failed {
			done.Kept = append(done.Kept, workspace.SkippedEntry{Path: name, Reason: why})
		}
		slices.SortFunc(done.Kept, func(a, b workspace.SkippedEntry) int { return strings.Compare(a.Path, b.Path) })
	}
	return err
}
