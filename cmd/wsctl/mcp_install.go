package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/workspace"
)

const mcpInstallLong = `Tell a client of the server: add an entry for wsctl to the client's configuration.
Other entries and comments stay as they are; a file that cannot be read as what it
should be is left alone, and so is a server of the same name that is not wsctl's.

With --scope user, the default, the entry is in your own configuration and serves
the directory that the client has open, or --root. With --scope project it is in
a file of the project, where commands in the sandbox can change it, too.

What follows -- are flags for "wsctl mcp".`

const mcpInstallExample = `  wsctl mcp install --client claude-code
  wsctl mcp install --client vscode --scope project --root ~/src/app
  wsctl mcp install --client codex --print
  wsctl mcp install --client zed --name go -- --image golang:1.26 --approve run_command`

// installOptions are the flags of mcp install.
type installOptions struct {
	client choice
	scope  choice
	root   string
	name   string
	print  bool
}

func newMCPInstallCommand(a *app) *cobra.Command {
	o := installOptions{
		client: choice{words: clientNames()},
		scope:  choice{value: scopeUser, words: []string{scopeUser, scopeProject}},
		name:   "wsctl",
	}
	cmd := &cobra.Command{
		Use:     "install --client CLIENT [flags] [-- FLAGS]",
		Short:   "Tell a client of the server",
		Long:    mcpInstallLong,
		Example: mcpInstallExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.mcpInstall(cmd, &o, args)
		},
	}
	f := cmd.Flags()
	addChoice(cmd, &o.client, "client", "the client")
	addChoice(cmd, &o.scope, "scope", "whose configuration to change: yours, or the project's")
	f.Var(&named{&o.root, "DIR"}, "root", "directory to serve (default: with --scope user what the client has open, with --scope project this directory)")
	_ = cmd.MarkFlagDirname("root")
	f.Var(&named{&o.name, "NAME"}, "name", "name of the server in the client")
	f.BoolVar(&o.print, "print", false, "print the entry and write nothing")
	return cmd
}

// installation is an entry and where it goes.
type installation struct {
	client mcpClient
	file   configFile
	name   string
	entry  []field
}

func (a *app) mcpInstall(cmd *cobra.Command, o *installOptions, args []string) error {
	verb := verbOf(cmd)
	if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
		return usagef(verb, "%q is too much; flags for wsctl mcp follow --", args[0])
	}
	if o.client.value == "" {
		return usagef(verb, "--client is missing; it is one of %s", strings.Join(o.client.words, ", "))
	}
	if !plainName(o.name) {
		return usagef(verb, "--name %q: a name has letters, digits, - and _ only", o.name)
	}
	if err := a.checkServerFlags(verb, args); err != nil {
		return err
	}
	c, err := client(o.client.value)
	if err != nil {
		return err
	}
	in, err := a.installation(c, o, args)
	if err != nil {
		return err
	}
	if o.print {
		text, err := in.edit(nil)
		if err != nil {
			return err
		}
		a.ui.talk("for " + workspace.Printable(in.file.String()))
		return a.ui.result(text)
	}
	return a.install(in)
}

// plainName reports whether every client takes a name.
func plainName(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

// checkServerFlags refuses flags that wsctl mcp would refuse when it is started,
// where nobody sees why.
func (a *app) checkServerFlags(verb string, args []string) error {
	var o mcpOptions
	server := &cobra.Command{Use: "mcp"}
	o.addFlags(server)
	if err := server.ParseFlags(args); err != nil {
		return flagError("mcp", err)
	}
	switch {
	case server.Flags().NArg() > 0:
		return usagef(verb, "%q is no flag of wsctl mcp", server.Flags().Arg(0))
	case server.Flags().Changed("root"):
		return usagef(verb, "give --root before the --")
	case o.http.address != "":
		return usagef(verb, "a client starts the server itself and speaks to it directly; leave --http out")
	}
	return o.place.check(server)
}

// installation puts the entry together.
func (a *app) installation(c mcpClient, o *installOptions, args []string) (installation, error) {
	in := installation{client: c, name: o.name}
	self, err := os.Executable()
	if err != nil {
		return in, workspace.Errorf(workspace.ErrIO, "mcp install", "", "where wsctl is: %w", err)
	}
	root := o.root
	if root == "" && o.scope.value == scopeProject {
		root = "."
	}
	if root != "" {
		if root, err = filepath.Abs(root); err != nil {
			return in, workspace.Errorf(workspace.ErrInvalidArgument, "--root", "", "%w", err)
		}
		if fi, err := os.Stat(root); err != nil {
			return in, workspace.Errorf(workspace.ErrInvalidArgument, "--root", "", "%w", err)
		} else if !fi.IsDir() {
			return in, workspace.Errorf(workspace.ErrNotDirectory, "--root", root, "it is no directory")
		}
	}
	serve := []string{"mcp"}
	switch {
	case root != "":
		serve = append(serve, "--root", root)
	case c.here != "":
		serve = append(serve, "--root", c.here)
	}
	in.entry = c.entry(self, append(serve, args...))
	if o.scope.value == scopeProject {
		in.file = configFile{dir: root, names: c.projectFiles}
		return in, nil
	}
	files := c.userFiles(a.env)
	if len(files) == 0 {
		return in, workspace.Errorf(workspace.ErrInvalidArgument, "mcp install", "", "your home directory is not known; set HOME")
	}
	in.file = configFile{names: files}
	return in, nil
}

// install changes the client's file, and tells what it did.
func (a *app) install(in installation) error {
	fail := func(err error) error {
		if workspace.CodeOf(err) != "" {
			return err
		}
		return workspace.Errorf(workspace.ErrInvalidArgument, "mcp install", in.file.String(), "%w; nothing is changed, see --print", err)
	}
	var did string
	err := in.file.change(func(old []byte) ([]byte, error) {
		all, err := in.decode(old)
		if err != nil {
			return nil, err
		}
		did = "added"
		if there, ok := lookUp(all, in.path(all)); ok {
			if did = "updated"; !isOurs(there) {
				return nil, fmt.Errorf("it has another server with the name %q; give --name", in.name)
			}
			if has(there, in.entry) {
				did = "already there:"
				return old, nil
			}
		}
		return in.edit(old)
	})
	if err != nil {
		return fail(err)
	}
	return a.ui.result([]byte(fmt.Sprintf("%s: %s %s\n", workspace.Printable(in.file.String()), did, in.name)))
}

func (in *installation) decode(text []byte) (map[string]any, error) {
	if in.client.toml {
		return decodeTOML(text)
	}
	return decodeJSON(text)
}

// path is where the entry is in a file that says all that.
func (in *installation) path(all map[string]any) []string {
	path := in.client.path
	if len(in.client.oldPath) > 0 {
		if _, ok := lookUp(all, path); !ok {
			path = in.client.oldPath
		}
	}
	return append(slices.Clone(path), in.name)
}

// edit returns a file with the entry in it, and everything else as it was.
func (in *installation) edit(old []byte) ([]byte, error) {
	before, err := in.decode(old)
	if err != nil {
		return nil, err
	}
	path := in.path(before)
	var text []byte
	switch _, there := lookUp(before, path); {
	case in.client.toml:
		text, err = setTOML(old, path, in.entry)
	case there:
		// What the user added to the entry stays.
		text = old
		for _, f := range in.entry {
			if text, err = setJSON(text, append(slices.Clone(path), f.name), f.value); err != nil {
				return nil, err
			}
		}
	default:
		text = old
		if len(before) == 0 {
			for _, f := range in.client.fresh {
				if text, err = setJSON(text, []string{f.name}, f.value); err != nil {
					return nil, err
				}
			}
		}
		text, err = setJSON(text, path, fields(in.entry))
	}
	if err != nil {
		return nil, err
	}
	return text, in.unharmed(before, text, path)
}

// unharmed checks that a changed file says all that it said before, and the
// entry.
func (in *installation) unharmed(before map[string]any, text []byte, path []string) error {
	after, err := in.decode(text)
	if err != nil {
		return fmt.Errorf("it cannot be changed: %w", err)
	}
	entry, ok := lookUp(after, path)
	if !ok || !has(entry, in.entry) {
		return fmt.Errorf("the entry cannot be added; add it by hand")
	}
	forget(before, path)
	forget(after, path)
	for _, f := range in.client.fresh {
		if _, was := before[f.name]; !was {
			delete(after, f.name)
		}
	}
	if !reflect.DeepEqual(before, after) {
		return fmt.Errorf("it cannot be changed without harm to the rest; add the entry by hand")
	}
	return nil
}

// forget removes what is at a path, and the objects that are empty then.
func forget(all map[string]any, path []string) {
	if len(path) > 1 {
		below, ok := all[path[0]].(map[string]any)
		if !ok {
			return
		}
		if forget(below, path[1:]); len(below) > 0 {
			return
		}
	}
	delete(all, path[0])
}

// has reports whether an entry has all these fields, with these values.
func has(entry any, want []field) bool {
	raw, err := json.Marshal(fields(want))
	if err != nil {
		return false
	}
	var values map[string]any
	if err := json.Unmarshal(raw, &values); err != nil {
		return false
	}
	got, ok := entry.(map[string]any)
	return ok && !slices.ContainsFunc(slices.Collect(maps.Keys(values)), func(name string) bool {
		return !reflect.DeepEqual(got[name], values[name])
	})
}

// isOurs reports whether an entry starts wsctl mcp.
func isOurs(entry any) bool {
	server, ok := entry.(map[string]any)
	if !ok {
		return false
	}
	var words []string
	for _, part := range []any{server["command"], server["args"]} {
		switch part := part.(type) {
		case string:
			words = append(words, part)
		case []any:
			for _, word := range part {
				text, _ := word.(string)
				words = append(words, text)
			}
		}
	}
	return len(words) > 1 && strings.TrimSuffix(filepath.Base(words[0]), ".exe") == "wsctl" && words[1] == "mcp"
}
