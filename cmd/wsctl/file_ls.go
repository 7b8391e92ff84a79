//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/workspace"
)

const fileLsLong = `List a directory, by default the root, sorted by the bytes of the names: all
entries, but for the state of wsctl. Into a pipe or a file the names go as they
are, a line each, with --null each before a NUL byte, which no name holds. On a
terminal, and with -l, a name that is not printable text is quoted.

--limit lists a part; "--after NAME", with the last name of it, goes on where it
ended, also when that name is gone by then. With --json "more" tells whether
there is more.`

const fileLsExample = `  wsctl file ls
  wsctl file ls -l src
  wsctl file ls --null src | xargs -0 -n1 printf '<%s>\n'
  wsctl file ls --json --limit 100 --after main.go src | jq -r '.entries[].name'`

// lsOptions are the flags of file ls.
type lsOptions struct {
	tree       treeOptions
	long, null bool
	after      string
	limit      count
}

func newFileLsCommand(a *app) *cobra.Command {
	var o lsOptions
	o.limit.least, o.limit.most = 1, 1<<31
	cmd := &cobra.Command{
		Use:               "ls [flags] [PATH]",
		Short:             "List a directory",
		Long:              fileLsLong,
		Example:           fileLsExample,
		Args:              takes(0, 1, "one path"),
		ValidArgsFunction: a.completePath(&o.tree),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.long && (o.null || o.tree.json) || o.null && o.tree.json {
				return usagef(verbOf(cmd), "-l, --null and --json do not go together; use one")
			}
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			return a.reading(cmd, &o.tree, func(ctx context.Context, t *tree) error {
				return a.ls(ctx, t, &o, dir)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.long, "long", "l", false, "print mode, links, owner, size and time too")
	f.BoolVarP(&o.null, "null", "0", false, "end each name with a NUL byte, and quote none")
	f.StringVar(&o.after, "after", "", "leave out names up to and including this `NAME`")
	f.Var(&o.limit, "limit", "list at most so many entries (default: all)")
	o.tree.addFlags(cmd)
	return cmd
}

// listing is what `wsctl file ls --json` prints.
type listing struct {
	pathText
	Entries []entryFacts `json:"entries"`
	More    bool         `json:"more"`
}

func (a *app) ls(ctx context.Context, t *tree, o *lsOptions, dir string) error {
	var entries []entryFacts
	var list workspace.List
	err := t.do(dir, func(name string) (err error) {
		list, err = t.ReadDir(ctx, name, workspace.ListOptions{After: o.after, Limit: int(o.limit.value)})
		if err == nil && (o.long || o.tree.json) {
			entries, err = t.entries(ctx, name, list.Entries)
		}
		return err
	})
	if err != nil {
		return failedOperation(err, nil)
	}
	switch {
	case o.tree.json:
		return a.ui.object(listing{newPathText(dir), entries, list.More})
	case o.long:
		err = a.ui.longList(list.Entries, entries)
	default:
		err = a.ui.names(list.Entries, o.null)
	}
	if err == nil && list.More {
		last := list.Entries[len(list.Entries)-1].Name()
		a.ui.talk("there is more; go on with --after " + strconv.Quote(last))
	}
	return err
}

// entries are the facts of the entries of the directory name.
func (t *tree) entries(ctx context.Context, name string, list []fs.DirEntry) ([]entryFacts, error) {
	all := make([]entryFacts, 0, len(list))
	for _, each := range list {
		fi, err := each.Info()
		if err != nil {
			return nil, err
		}
		e := entryFacts{facts: newFacts(fi)}
		e.Name, e.NameBase64 = text([]byte(fi.Name()))
		if fi.Mode().Type() == fs.ModeSymlink {
			target, ok, err := t.target(ctx, name+"/"+fi.Name())
			if err != nil {
				return nil, err
			}
			if ok {
				e.pointTo(target)
			}
		}
		all = append(all, e)
	}
	return all, nil
}

// names prints a name a line.
func (u *ui) names(list []fs.DirEntry, null bool) error {
	var b bytes.Buffer
	for _, each := range list {
		switch {
		case null:
			b.WriteString(each.Name() + "\x00")
		case u.outTTY:
			b.WriteString(workspace.Printable(each.Name()) + "\n")
		default:
			b.WriteString(each.Name() + "\n")
		}
	}
	return u.result(b.Bytes())
}

// longList prints a table; each of facts belongs to one of list.
func (u *ui) longList(list []fs.DirEntry, all []entryFacts) error {
	rows := make([][]string, 0, len(list))
	for i, f := range all {
		fi, err := list[i].Info()
		if err != nil {
			return err
		}
		name := workspace.Printable(fi.Name())
		if f.Target != nil {
			name += " -> " + workspace.Printable(f.target)
		}
		rows = append(rows, []string{
			letters(fi.Mode()), strconv.FormatUint(f.Links, 10), fmt.Sprintf("%d:%d", f.UID, f.GID),
			strconv.FormatInt(f.Size, 10), f.Modified.Format(time.RFC3339), name,
		})
	}
	return u.table([]string{"MODE", "LINKS", "OWNER", "SIZE", "MODIFIED", "NAME"}, rows)
}

const fileStatLong = `Print what a file is: kind, size, mode, owner, number of names (hard links), time
of the last change of its content, and version. A link is not followed; its
target is printed, as its text. With -L it is what the link leads to.

The version changes whenever the content or the place does; "write --if-version"
takes it. A file that is missing is NOT_FOUND and status 1.`

// statOptions are the flags of file stat.
type statOptions struct {
	tree   treeOptions
	follow bool
}

func newFileStatCommand(a *app) *cobra.Command {
	var o statOptions
	cmd := &cobra.Command{
		Use:               "stat [flags] PATH",
		Short:             "Print what a file is",
		Long:              fileStatLong,
		Example:           "  wsctl file stat go.mod\n  wsctl file stat -L current\n  wsctl file stat --json go.mod | jq -r .version",
		Args:              takes(1, 1, "one path"),
		ValidArgsFunction: a.completePath(&o.tree),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reading(cmd, &o.tree, func(ctx context.Context, t *tree) error {
				return a.stat(ctx, t, &o, args[0])
			})
		},
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "L", false, "follow a link")
	o.tree.addFlags(cmd)
	return cmd
}

func (a *app) stat(ctx context.Context, t *tree, o *statOptions, given string) error {
	var fi fs.FileInfo
	var f facts
	err := t.do(given, func(name string) (err error) {
		if o.follow {
			fi, err = t.Stat(ctx, name)
		} else {
			fi, err = t.Lstat(ctx, name)
		}
		if err != nil {
			return err
		}
		f = newFacts(fi)
		if fi.Mode().Type() == fs.ModeSymlink {
			var target string
			var ok bool
			if target, ok, err = t.target(ctx, name); ok {
				f.pointTo(target)
			}
		}
		return err
	})
	if err != nil {
		return failedOperation(err, nil)
	}
	if o.tree.json {
		return a.ui.object(pathFacts{newPathText(given), f})
	}
	var b bytes.Buffer
	line := func(name, value string) { fmt.Fprintf(&b, "%-9s %s\n", name, value) }
	line("path", workspace.Printable(given))
	line("kind", f.Kind)
	if f.Target != nil {
		line("target", workspace.Printable(f.target))
	}
	line("size", strconv.FormatInt(f.Size, 10))
	line("mode", f.Mode+" "+letters(fi.Mode()))
	line("owner", fmt.Sprintf("%d:%d", f.UID, f.GID))
	line("links", strconv.FormatUint(f.Links, 10))
	line("modified", f.Modified.Format(time.RFC3339Nano))
	line("version", f.Version)
	return a.ui.result(b.Bytes())
}

// completePath offers the entries of the directory that a path begins with.
func (a *app) completePath(o *treeOptions) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		t, err := a.openTree(o)
		if err != nil {
			return nil, none
		}
		defer t.Close()
		dir, _ := path.Split(begun)
		var offers []string
		err = t.do(cmp.Or(dir, "."), func(name string) error {
			list, err := t.ReadDir(cmd.Context(), name, workspace.ListOptions{})
			for _, each := range list.Entries {
				offer := dir + each.Name()
				if each.IsDir() {
					offer += "/"
				}
				// A line is an offer, and a tab begins its description.
				if workspace.Printable(offer) == offer {
					offers = append(offers, offer)
				}
			}
			return err
		})
		if err != nil {
			return nil, none
		}
		return offers, none | cobra.ShellCompDirectiveNoSpace
	}
}
