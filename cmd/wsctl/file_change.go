//go:build unix

package main

import (
	"context"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

const fileRmLong = `Remove files, links (never what they lead to) and empty directories; with -r also
directories with what they hold. Such a directory is first taken out of the tree
in one step, then deleted. With --trash it is kept, and the id is printed by which
"wsctl file trash restore" puts it back; "wsctl file trash ls" tells what is there.`

// rmOptions are the flags of file rm.
type rmOptions struct {
	tree                            treeOptions
	recursive, trash, ignoreMissing bool
}

func newFileRmCommand(a *app) *cobra.Command {
	var o rmOptions
	cmd := &cobra.Command{
		Use:               "rm [flags] PATH…",
		Short:             "Remove files and directories",
		Long:              fileRmLong,
		Example:           "  wsctl file rm old.txt\n  wsctl file rm -r --trash build\n  wsctl file rm -f -- -x",
		Args:              takes(1, -1, "at least one path"),
		ValidArgsFunction: a.completePath(&o.tree),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changing(cmd, &o.tree, func(ctx context.Context, t *tree) error {
				return a.eachPath(t, args, o.tree.json, func(name string, item *doneItem) error {
					err := a.remove(ctx, t, &o, name, item)
					if o.ignoreMissing && workspace.CodeOf(err) == workspace.ErrNotFound {
						return nil
					}
					return err
				})
			})
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.recursive, "recursive", "r", false, "remove directories with what they hold")
	f.BoolVar(&o.trash, "trash", false, "move to the trash, directories with what they hold, instead of deleting")
	f.BoolVarP(&o.ignoreMissing, "ignore-missing", "f", false, "a path that is missing is no failure")
	o.tree.addFlags(cmd)
	return cmd
}

// remove removes one entry. The id of an item of the trash is told at once: what
// fails later must not hide it.
func (a *app) remove(ctx context.Context, t *tree, o *rmOptions, name string, item *doneItem) error {
	if !o.trash {
		return t.Remove(ctx, name, workspace.RemoveOptions{Recursive: o.recursive})
	}
	id, err := t.RemoveToTrash(ctx, name)
	if err != nil {
		return err
	}
	item.TrashID = id
	if o.tree.json {
		return nil
	}
	return a.ui.result([]byte(id + "\n"))
}

const fileMvLong = `Give a file, a link or a directory another path. The directory it goes to must be
there; TO is the new path itself, also where it ends in a directory's name. A
path that is taken is EXISTS. With --overwrite a file replaces a file and a
directory a directory, in one step: TO is never missing.`

// mvOptions are the flags of file mv.
type mvOptions struct {
	tree      treeOptions
	overwrite bool
}

// moved is what `wsctl file mv --json` prints.
type moved struct {
	From pathText `json:"from"`
	To   pathText `json:"to"`
}

func newFileMvCommand(a *app) *cobra.Command {
	var o mvOptions
	cmd := &cobra.Command{
		Use:               "mv [flags] FROM TO",
		Short:             "Move a file or directory",
		Long:              fileMvLong,
		Example:           "  wsctl file mv draft.txt notes.txt\n  wsctl file mv --overwrite new.conf etc/app.conf",
		Args:              takes(2, 2, "two paths, FROM and TO"),
		ValidArgsFunction: a.completePath(&o.tree),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changing(cmd, &o.tree, func(ctx context.Context, t *tree) error {
				err := t.doTwo(args[0], args[1], func(from, to string) error {
					return t.Rename(ctx, from, to, workspace.RenameOptions{Overwrite: o.overwrite})
				})
				if err == nil && o.tree.json {
					return a.ui.object(moved{newPathText(args[0]), newPathText(args[1])})
				}
				return failedOperation(err, nil)
			})
		},
	}
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "replace what has the path TO")
	o.tree.addFlags(cmd)
	return cmd
}

// doTwo runs an operation on what two paths name.
func (t *tree) doTwo(first, second string, operation func(first, second string) error) error {
	return t.do(first, func(one string) error {
		return t.do(second, func(two string) error { return operation(one, two) })
	})
}

const fileCpLong = `Copy a file, whole or not at all, as "write" does it: with its permissions, but
no special bits. Directories above TO are made. A path that is taken is EXISTS
unless --overwrite is given; a directory is NOT_A_FILE without -r. Where the file
system can, the copy shares its content until one of the two changes.

With -r a directory is copied with what it holds, also whole or not at all: the
copy is made where nobody sees it and takes the path TO in one step. Links are
copied as links. With --overwrite it replaces a directory.`

// cpOptions are the flags of file cp.
type cpOptions struct {
	tree             treeOptions
	overwrite, force bool
	recursive        bool
	ifVersion        string
	maxBytes         size
}

func newFileCpCommand(a *app) *cobra.Command {
	var o cpOptions
	o.maxBytes.least, o.maxBytes.most = 1, maxSize
	cmd := &cobra.Command{
		Use:               "cp [flags] FROM TO",
		Short:             "Copy a file, or with -r a directory",
		Long:              fileCpLong,
		Example:           "  wsctl file cp app.conf app.conf.bak\n  wsctl file cp -r src src.bak\n  wsctl file cp --overwrite --json a b | jq -r .version",
		Args:              takes(2, 2, "two paths, FROM and TO"),
		ValidArgsFunction: a.completePath(&o.tree),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !o.overwrite && (o.force || o.ifVersion != "") {
				return usagef(verbOf(cmd), "--force and --if-version are about what is replaced; give --overwrite too")
			}
			if o.recursive && (o.force || o.ifVersion != "") {
				return usagef(verbOf(cmd), "--force and --if-version are about one file; leave them or -r out")
			}
			return a.changing(cmd, &o.tree, func(ctx context.Context, t *tree) error {
				if o.recursive {
					return a.copyTree(ctx, t, &o, args[0], args[1])
				}
				var fi fs.FileInfo
				err := t.doTwo(args[0], args[1], func(from, to string) (err error) {
					fi, err = t.Copy(ctx, from, to, workspace.WriteOptions{
						Exclusive: !o.overwrite, Force: o.force, IfVersion: o.ifVersion, MaxBytes: o.maxBytes.value,
					})
					return err
				})
				return a.wrote(args[1], fi, err, o.tree.json)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.recursive, "recursive", "r", false, "copy a directory with what it holds")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace a file, or with -r a directory, that has the path TO")
	f.BoolVar(&o.force, "force", false, "replace a file that may not be written")
	f.StringVar(&o.ifVersion, "if-version", "", "fail with CONFLICT unless TO has this `VERSION`")
	f.Var(&o.maxBytes, "max-bytes", "fail with TOO_LARGE when there is more to copy (default: no limit)")
	o.tree.addFlags(cmd)
	o.tree.addHardLinks(cmd)
	return cmd
}

// copyTree copies whatever FROM is.
func (a *app) copyTree(ctx context.Context, t *tree, o *cpOptions, from, to string) error {
	var fi fs.FileInfo
	err := t.doTwo(from, to, func(one, two string) (err error) {
		err = t.CopyTree(ctx, one, two, host.CopyTreeOptions{Overwrite: o.overwrite, MaxBytes: o.maxBytes.value})
		if err == nil {
			fi, err = t.Lstat(ctx, two)
		}
		return err
	})
	return a.wrote(to, fi, err, o.tree.json)
}

const fileMkdirLong = `Make directories. A path that is taken is EXISTS; with -p a directory that is
there already is good, and directories above it are made.`

// mkdirOptions are the flags of file mkdir.
type mkdirOptions struct {
	tree    treeOptions
	parents bool
	mode    permissions
}

func newFileMkdirCommand(a *app) *cobra.Command {
	var o mkdirOptions
	cmd := &cobra.Command{
		Use:               "mkdir [flags] PATH…",
		Short:             "Make directories",
		Long:              fileMkdirLong,
		Example:           "  wsctl file mkdir -p src/internal/app\n  wsctl file mkdir --mode 700 private",
		Args:              takes(1, -1, "at least one path"),
		ValidArgsFunction: a.completePath(&o.tree),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.mode.set && o.mode.value == 0 {
				return usagef(verbOf(cmd), "--mode 000 makes a directory that nobody can use; make it and use chmod")
			}
			return a.changing(cmd, &o.tree, func(ctx context.Context, t *tree) error {
				return a.eachPath(t, args, o.tree.json, func(name string, _ *doneItem) error {
					return t.Mkdir(ctx, name, workspace.MkdirOptions{Perm: o.mode.value, Parents: o.parents})
				})
			})
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.parents, "parents", "p", false, "make directories above it, and take one that is there")
	f.Var(&o.mode, "mode", "permissions, less the umask (default 777)")
	o.tree.addFlags(cmd)
	return cmd
}

const fileLnLong = `Make the symbolic link LINK with the text TARGET, which must lead to a place
inside the root, there already or not: relative to the directory of LINK, or
absolute below /workspace, which commands in a sandbox can follow and programs
on this machine cannot. Hard links are not made.`

// lnOptions are the flags of file ln.
type lnOptions struct {
	tree     treeOptions
	symbolic bool
}

// linked is what `wsctl file ln --json` prints.
type linked struct {
	pathText
	Target       string `json:"target"`
	TargetBase64 string `json:"targetBase64,omitempty"`
}

func newFileLnCommand(a *app) *cobra.Command {
	var o lnOptions
	cmd := &cobra.Command{
		Use:               "ln -s [flags] TARGET LINK",
		Short:             "Make a symbolic link",
		Long:              fileLnLong,
		Example:           "  wsctl file ln -s releases/42 current\n  wsctl file ln -s /workspace/data src/data",
		Args:              takes(2, 2, "TARGET and LINK"),
		ValidArgsFunction: a.completePath(&o.tree),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !o.symbolic {
				return usagef(verbOf(cmd), "only symbolic links are made; write wsctl file ln -s TARGET LINK")
			}
			return a.changing(cmd, &o.tree, func(ctx context.Context, t *tree) error {
				err := t.do(args[1], func(name string) error { return t.Symlink(ctx, args[0], name) })
				if err == nil && o.tree.json {
					l := linked{pathText: newPathText(args[1])}
					l.Target, l.TargetBase64 = text([]byte(args[0]))
					return a.ui.object(l)
				}
				return failedOperation(err, nil)
			})
		},
	}
	cmd.Flags().BoolVarP(&o.symbolic, "symbolic", "s", false, "make a symbolic link (required)")
	o.tree.addFlags(cmd)
	return cmd
}

const fileChmodLong = `Set the permission bits of what the paths lead to, in octal digits. Set-user-ID,
set-group-ID and sticky are never set.`

func newFileChmodCommand(a *app) *cobra.Command {
	var o treeOptions
	complete := a.completePath(&o)
	cmd := &cobra.Command{
		Use:     "chmod [flags] MODE PATH…",
		Short:   "Set permission bits",
		Long:    fileChmodLong,
		Example: "  wsctl file chmod 755 build.sh\n  wsctl file chmod 600 key.pem secrets.env",
		Args:    takes(2, -1, "MODE and at least one path"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return complete(cmd, args, begun)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var mode permissions
			if err := mode.Set(args[0]); err != nil {
				return usagef(verbOf(cmd), "%q: %w", args[0], err)
			}
			return a.changing(cmd, &o, func(ctx context.Context, t *tree) error {
				return a.eachPath(t, args[1:], o.json, func(name string, _ *doneItem) error {
					return t.Chmod(ctx, name, mode.value)
				})
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}
