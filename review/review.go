// Package review names what in a workspace's tree the programs of its user
// could act on later: hooks, settings, build files, agents' instructions, and
// files with special rights. A sandbox ends at its directory; the directory is
// then opened by git, editors, shells and CI on the host, with the user's own
// rights. Nothing in the tree is run, git least of all.
package review

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// Options say what is looked at.
type Options struct {
	// Since leaves out entries that have not changed after it, by the
	// kernel's own change time, which no command can set; zero: nothing.
	Since time.Time
	// UID is the user whose files are expected; files of others are named.
	// Negative: any.
	UID int
	// Attributes lists the names of an entry's extended attributes (xattr(7));
	// nil: they are not looked at.
	Attributes func(ctx context.Context, path string) ([]string, error)
}

// Finding is one entry that something on the host may act on.
type Finding struct {
	Path string `json:"path"`
	// Reason is a sentence for people.
	Reason string `json:"reason"`
	// Changed is when the entry last changed.
	Changed time.Time `json:"changed"`
}

// Report is what a review found.
type Report struct {
	Findings []Finding `json:"findings"`
	// Unread are entries that could not be looked at, with the reason: what
	// they hold is not known.
	Unread []workspace.SkippedEntry `json:"unread,omitempty"`
}

// maxConfig is how much of a git configuration file is read, in bytes. A larger
// one is named as unread.
const maxConfig = 1 << 20

// Tree is what a review reads; *workspace.Workspace is one.
type Tree interface {
	ReadDir(ctx context.Context, path string, o workspace.ListOptions) (workspace.List, error)
	ReadFile(ctx context.Context, path string, limit int64) ([]byte, error)
	ReadLink(ctx context.Context, path string) (string, error)
}

// Run looks through the whole tree, .git and dependencies included, and returns
// what it found sorted by path. The error is that of the root itself, or of ctx.
func Run(ctx context.Context, t Tree, o Options) (Report, error) {
	r := &run{ctx: ctx, tree: t, o: o, index: newIndex(), groups: map[string]time.Time{}}
	if err := r.directory(".", ""); err != nil {
		return Report{}, err
	}
	for dir, changed := range r.groups {
		r.report.Findings = append(r.report.Findings, Finding{dir, whole[fold(path.Base(dir))], changed})
	}
	slices.SortFunc(r.report.Findings, func(a, b Finding) int {
		return strings.Compare(a.Path, b.Path)
	})
	return r.report, nil
}

type run struct {
	ctx    context.Context //nolint:containedctx // the life of one call
	tree   Tree
	o      Options
	index  *index
	report Report
	// groups are the directories of dependencies in which something changed,
	// with the time of the last change.
	groups map[string]time.Time
}

// directory looks through one directory and what is below it. group is the
// directory of dependencies that it lies in, whose findings are one.
func (r *run) directory(dir, group string) error {
	list, err := r.tree.ReadDir(r.ctx, dir, workspace.ListOptions{})
	if err != nil {
		if dir == "." || r.ctx.Err() != nil {
			return err
		}
		r.unread(dir, err)
		return nil
	}
	repository := isRepository(list.Entries)
	for _, entry := range list.Entries {
		name := path.Join(dir, entry.Name())
		info, err := entry.Info()
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				r.unread(name, err)
			}
			continue
		}
		r.entry(name, info, group, repository)
		if !info.IsDir() {
			continue
		}
		below := group
		if why := whole[fold(entry.Name())]; below == "" && why != "" {
			below = name
		}
		if err := r.directory(name, below); err != nil {
			return err
		}
	}
	return nil
}

// entry names one entry where that is due.
func (r *run) entry(name string, info fs.FileInfo, group string, repository bool) {
	changed := info.ModTime()
	st, _ := info.Sys().(*workspace.FileStat)
	if st != nil {
		changed = st.Changed
	}
	if !r.o.Since.IsZero() && changed.Before(r.o.Since) {
		return
	}
	add := func(reason string) {
		r.report.Findings = append(r.report.Findings, Finding{name, reason, changed})
	}
	for _, why := range rights(info, st, r.o.UID) {
		add(why)
	}
	r.attributes(name, info, add)
	if info.IsDir() {
		return
	}
	if group != "" {
		if last, seen := r.groups[group]; !seen || changed.After(last) {
			r.groups[group] = changed
		}
		return
	}
	switch base := fold(path.Base(name)); {
	case isGitConfig(base) && (repository || inGit(name)):
		r.config(name, add)
	case base == ".git":
		r.gitLink(name, info, add)
	case strings.HasSuffix(base, ".sample") && strings.Contains(fold(name), ".git/hooks/"):
		// git runs no sample.
	case repository && base == "head" && !inGit(name):
		add("a repository without a work tree lies here: git takes its settings when it is started in it")
	default:
		if why := r.index.reason(name); why != "" {
			add(why)
		} else if info.Mode().IsRegular() && info.Mode()&0o111 != 0 && hostPrograms[base] {
			add("it is executable and has the name of a program of the host: a PATH with \".\" in it runs it")
		}
	}
}

// attributeRights are extended attributes that give rights beside the mode.
var attributeRights = map[string]string{
	"security.capability":      "it has file capabilities: whoever runs it gets rights of root (getcap shows which)",
	"system.posix_acl_access":  "an access list gives rights to it that its mode does not show (getfacl shows which)",
	"system.posix_acl_default": "what is made in it gets an access list (getfacl shows which)",
}

// attributes names what extended attributes give rights to an entry.
func (r *run) attributes(name string, info fs.FileInfo, add func(string)) {
	if r.o.Attributes == nil || info.Mode()&fs.ModeSymlink != 0 {
		return
	}
	names, err := r.o.Attributes(r.ctx, name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.unread(name, err)
		}
		return
	}
	slices.Sort(names)
	for _, n := range names {
		if why := attributeRights[n]; why != "" {
			add(why)
		}
	}
}

// config names the settings of a git configuration file that matter.
func (r *run) config(name string, add func(string)) {
	text, err := r.tree.ReadFile(r.ctx, name, maxConfig)
	if err != nil {
		r.unread(name, err)
		return
	}
	for _, found := range gitConfig(text) {
		add("git setting " + found)
	}
}

// gitLink names a .git that is not a directory: it sends git to settings
// elsewhere.
func (r *run) gitLink(name string, info fs.FileInfo, add func(string)) {
	if info.Mode()&fs.ModeSymlink != 0 {
		if to, err := r.tree.ReadLink(r.ctx, name); err == nil {
			add("it sends git to the repository " + to + ", with the settings of that one")
			return
		}
	}
	text, err := r.tree.ReadFile(r.ctx, name, 4096)
	if err != nil {
		r.unread(name, err)
		return
	}
	add("it sends git to another repository, with the settings of that one: " + strings.TrimSpace(string(text)))
}

func (r *run) unread(name string, err error) {
	r.report.Unread = append(r.report.Unread, workspace.SkippedEntry{Path: name, Reason: err.Error()})
}

func inGit(name string) bool { return strings.Contains("/"+fold(name), "/.git/") }

// isRepository reports whether a directory is what git takes for a repository:
// gitrepository-layout(5).
func isRepository(entries []fs.DirEntry) bool {
	var head, objects, refs bool
	for _, e := range entries {
		switch fold(e.Name()) {
		case "head":
			head = true
		case "objects":
			objects = e.IsDir()
		case "refs":
			refs = e.IsDir()
		}
	}
	return head && objects && refs
}

// rights returns what is unusual about the rights of an entry.
func rights(info fs.FileInfo, st *workspace.FileStat, uid int) (why []string) {
	mode := info.Mode()
	switch {
	case mode&fs.ModeSymlink != 0:
		return nil
	case mode.IsRegular() && mode&fs.ModeSetuid != 0:
		why = append(why, "it is set-user-id: whoever runs it gets the rights of its owner")
	case mode.IsRegular() && mode&fs.ModeSetgid != 0:
		why = append(why, "it is set-group-id: whoever runs it gets the rights of its group")
	case mode&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket) != 0:
		why = append(why, "it is a "+kind(mode)+": programs that open it block, or talk to whoever holds it")
	}
	if mode&0o002 != 0 && mode&(fs.ModeSticky|fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		why = append(why, "every user of the machine may write it")
	}
	if st != nil && uid >= 0 && int64(st.UID) != int64(uid) {
		why = append(why, "it belongs to another user than the tree")
	}
	return why
}

func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "FIFO"
	case mode&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}
