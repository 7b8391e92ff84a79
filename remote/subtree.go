package remote

import (
	"context"
	"errors"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

// A token with a prefix is held to that directory by the guard itself, not by
// comparing text: the directory is opened as a tree of its own, which no "..",
// link or rename leaves, also not to another place in the same workspace.
// Where the driver's files cannot do that, such a token is good for nothing.

// enter makes c.Workspace the directory of the token's prefix.
func (c *Call) enter(ctx context.Context) (leave func(), err error) {
	files, ok := c.Workspace.Driver().Files().(workspace.Subtreer)
	if !ok {
		return nil, workspace.Errorf(workspace.ErrUnsupported, "request", "", "this kind of workspace cannot hold a token to a directory; use one without a prefix")
	}
	part, err := files.Subtree(ctx, c.Who.Prefix)
	if err != nil {
		return nil, err
	}
	c.root = strings.TrimRight(c.Workspace.Root(), "/")
	ws, err := workspace.New(&filesOnly{part, c.root + "/" + c.Who.Prefix}, workspace.Options{})
	if err != nil {
		_ = part.Close()
		return nil, err
	}
	c.Workspace = ws
	return func() { _ = ws.Close() }, nil
}

// filesOnly is a driver without commands.
type filesOnly struct {
	workspace.Tree
	root string
}

var errFilesOnly = errors.New("the token is for files alone")

func (f *filesOnly) Descriptor() workspace.Descriptor {
	return workspace.Descriptor{Kind: workspace.KindLocal, Root: f.root}
}
func (f *filesOnly) Files() workspace.Files { return f.Tree }
func (f *filesOnly) Ready(context.Context) error {
	return &workspace.Error{Code: workspace.ErrDenied, Op: "exec", Err: errFilesOnly}
}

func (f *filesOnly) Run(context.Context, workspace.Command, workspace.Streams) (workspace.Exit, error) {
	return workspace.Exit{}, f.Ready(context.Background())
}

// Path is a path that a request names, as c.Workspace takes it. A token with a
// prefix names paths from the root of the whole workspace, like everybody; one
// that does not begin with the prefix is OUTSIDE_ROOT.
func (c *Call) Path(p text) (string, error) {
	if c.root == "" || p == "" {
		return string(p), nil
	}
	rest := strings.TrimLeft(string(p), "/")
	if rest != string(p) {
		var ok bool
		if rest, ok = strings.CutPrefix("/"+rest, c.root+"/"); !ok {
			return "", c.outside(string(p))
		}
	}
	for {
		rest = strings.TrimLeft(rest, "/")
		cut, ok := strings.CutPrefix(rest, "./")
		if !ok {
			break
		}
		rest = cut
	}
	for part := range strings.SplitSeq(c.Who.Prefix, "/") {
		first, after, more := strings.Cut(rest, "/")
		if first != part {
			return "", c.outside(string(p))
		}
		rest = strings.TrimLeft(after, "/")
		if !more {
			rest = ""
		}
	}
	if rest == "" {
		return ".", nil
	}
	return rest, nil
}

func (c *Call) outside(p string) error {
	return workspace.Errorf(workspace.ErrOutside, "request", p, "the token is for files below %s alone", workspace.Printable(c.Who.Prefix))
}

// given returns err with its path as seen from the root of the whole workspace.
func (c *Call) given(err error) error {
	var e *workspace.Error
	if c.root == "" || !errors.As(err, &e) || e.Path == "" || e.Code == workspace.ErrOutside {
		return err
	}
	named := *e
	named.Path = c.Who.Prefix + "/" + e.Path
	return &named
}
