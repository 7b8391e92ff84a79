//go:build unix

package orchestrator

import (
	"context"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

// bundleScript makes the directory that it is run in a clone of the git bundle on
// its standard input. It runs where the workspace's commands do, so that git reads
// what anybody may have made with the rights of those commands and no others.
// Hooks, templates and settings of that place are not used, submodules are left
// alone. The branch is the bundle's HEAD where it has one, else its first.
const bundleScript = `set -eu
b=$(mktemp)
trap 'rm -f "$b"' EXIT
cat >"$b"
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0 GIT_CONFIG_COUNT=3
export GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null GIT_CONFIG_KEY_1=fetch.recurseSubmodules GIT_CONFIG_VALUE_1=false
export GIT_CONFIG_KEY_2=safe.directory GIT_CONFIG_VALUE_2='*'
git init -q --template= .
git fetch -q --update-head-ok "$b" '+refs/heads/*:refs/heads/*' '+refs/tags/*:refs/tags/*'
head=$(git ls-remote "$b" HEAD | cut -f1)
branch=
[ -z "$head" ] || branch=$(git for-each-ref --count=1 --points-at "$head" --format='%(refname:short)' refs/heads)
[ -n "$branch" ] || branch=$(git for-each-ref --count=1 --format='%(refname:short)' refs/heads)
[ -n "$branch" ] || { echo 'it has no branch' >&2; exit 1; }
git symbolic-ref HEAD "refs/heads/$branch"
git reset -q --hard`

// cloneBundle clones an uploaded git bundle into a workspace that is ready.
func (o *Orchestrator) cloneBundle(ctx context.Context, ws *workspace.Workspace, id string) error {
	const op = "create"
	f, err := o.openUpload(id)
	if err != nil {
		return err
	}
	defer f.Close()
	out, err := ws.Exec(ctx, workspace.Command{Shell: bundleScript, Stdin: f})
	switch {
	case err != nil:
		return err
	case out.ExitCode == 127:
		return workspace.Errorf(workspace.ErrUnsupported, op, "", "there is no git in the workspace to clone the bundle with; give an image that has one")
	case out.ExitCode != 0:
		said, _, _ := strings.Cut(strings.TrimSpace(string(out.Stderr)), "\n")
		return workspace.Errorf(workspace.ErrCorrupt, op, "", "the git bundle cannot be cloned: %s", workspace.Printable(said))
	}
	return nil
}
