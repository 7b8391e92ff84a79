//go:build linux

package review_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/review"
	"github.com/wsctl/wsctl/workspace"
)

// tree makes files with their content (a name that ends in / is a directory, a
// content "-> x" a link to x) and returns the workspace over them.
func tree(t *testing.T, files map[string]string) (*workspace.Workspace, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, link := strings.CutPrefix(text, "-> "); link {
			err = os.Symlink(to, p)
		} else if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(p, 0o755)
		} else {
			err = os.WriteFile(p, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := host.New(dir, host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w, dir
}

func findings(t *testing.T, w review.Tree, o review.Options) map[string][]string {
	t.Helper()
	r, err := review.Run(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Unread) != 0 {
		t.Errorf("unread: %+v", r.Unread)
	}
	m := map[string][]string{}
	for _, f := range r.Findings {
		m[f.Path] = append(m[f.Path], f.Reason)
		if f.Changed.IsZero() {
			t.Errorf("%s: no time of change", f.Path)
		}
	}
	return m
}

// Every known trigger is named with who acts on it, at the top and in a
// directory further down.
func TestTriggers(t *testing.T) {
	for name, says := range map[string]string{
		".git/hooks/pre-commit":                  "git runs its hooks",
		".git/modules/sub/hooks/post-checkout":   "git runs its hooks",
		".git/info/attributes":                   "filter",
		".gitattributes":                         "filter",
		".gitmodules":                            "submodule",
		".git/objects/info/alternates":           "another repository",
		".git/rebase-merge/git-rebase-todo":      "exec lines",
		".envrc":                                 "direnv",
		".env":                                   "environment",
		".env.local":                             "environment",
		"mise.toml":                              "mise",
		".bashrc":                                "shell",
		".gdbinit":                               "debugger",
		".dir-locals.el":                         "editor",
		".docker/config.json":                    "client",
		".ssh/config":                            "client",
		"evil.desktop":                           "desktop",
		".vscode/tasks.json":                     "editor",
		".vscode/settings.json":                  "editor",
		"x.code-workspace":                       "editor",
		".idea/runConfigurations/run.xml":        "editor",
		".zed/tasks.json":                        "editor",
		".devcontainer/devcontainer.json":        "development container",
		".devcontainer.json":                     "development container",
		".mcp.json":                              "agent",
		".claude/settings.local.json":            "agent",
		"CLAUDE.md":                              "agent",
		"AGENTS.md":                              "agent",
		".cursor/mcp.json":                       "agent",
		".cursorrules":                           "agent",
		".codex/config.toml":                     "agent",
		".gemini/settings.json":                  "agent",
		".github/copilot-instructions.md":        "agent",
		"opencode.json":                          "agent",
		".husky/pre-commit":                      "commit",
		"lefthook.yml":                           "commit",
		".pre-commit-config.yaml":                "commit",
		".hg/hgrc":                               "version control",
		"package.json":                           "JavaScript",
		".npmrc":                                 "JavaScript",
		".yarnrc.yml":                            "JavaScript",
		".yarn/releases/yarn-4.cjs":              "JavaScript",
		".pnpmfile.cjs":                          "JavaScript",
		"eslint.config.mjs":                      "linters",
		"vite.config.ts":                         "linters",
		"setup.py":                               "Python",
		"conftest.py":                            "Python",
		"sitecustomize.py":                       "Python",
		"a.pth":                                  "Python",
		"pyproject.toml":                         "Python",
		"Gemfile":                                "Ruby",
		"composer.json":                          "PHP",
		"build.rs":                               "cargo",
		".cargo/config.toml":                     "cargo",
		"rust-toolchain.toml":                    "cargo",
		"go.mod":                                 "go command",
		"build.gradle.kts":                       "JVM",
		"gradle/wrapper/gradle-wrapper.jar":      "JVM",
		"pom.xml":                                "JVM",
		".mvn/extensions.xml":                    "JVM",
		"app.csproj":                             "build tool",
		"mix.exs":                                "build tool",
		"Makefile":                               "make",
		"rules.mk":                               "make",
		"CMakeLists.txt":                         "make",
		"Justfile":                               "make",
		".bazelrc":                               "build system",
		"BUILD.bazel":                            "build system",
		"flake.nix":                              "nix",
		".clangd":                                "language server",
		"Dockerfile":                             "containers",
		"docker-compose.override.yml":            "containers",
		"compose.yaml":                           "containers",
		"main.tf":                                "containers",
		".github/workflows/ci.yml":               "CI",
		".gitlab-ci.yml":                         "CI",
		"Jenkinsfile":                            "CI",
		".circleci/config.yml":                   "CI",
		".github/actions/setup/action.yml":       "CI",
		".GIT/hooks/pre-push":                    "git runs its hooks",
		".g\u200cit/hooks/pre-push":              "git runs its hooks",
		".git. /hooks/pre-push":                  "git runs its hooks",
		"git~1/hooks/pre-push":                   "git runs its hooks",
		"vendor/x/.ENVRC":                        "direnv",
		"a/b/c/.vscode/launch.json":              "editor",
		"third_party/lib/.git/hooks/post-commit": "git runs its hooks",
	} {
		w, _ := tree(t, map[string]string{name: "x"})
		got := findings(t, w, review.Options{UID: -1})
		if why := strings.Join(got[name], "\n"); !strings.Contains(why, says) {
			t.Errorf("%s: got %q, want it to say %q", name, why, says)
		}
	}
}

// What nothing acts on is not named, or nobody reads the list.
func TestPlainFilesAreNotNamed(t *testing.T) {
	w, _ := tree(t, map[string]string{
		"main.go": "x", "README.md": "x", "src/app.py": "x", "docs/config": "[core]\n\tpager = sh\n", "a/head": "x", "index.html": "x", "data/build.json": "x",
		".git/HEAD": "ref: refs/heads/main\n", ".git/objects/": "", ".git/refs/": "", ".git/hooks/pre-commit.sample": "x", ".git/index": "x",
		".git/config": "[core]\n\tbare = false\n\tfsmonitor = true\n[remote \"origin\"]\n\turl = u\n[user]\n\tname = n\n[alias]\n\tst = status\n[pager]\n\tlog = false\n",
	})
	if got := findings(t, w, review.Options{UID: -1}); len(got) != 0 {
		t.Errorf("named: %v", got)
	}
}

// Of git's configuration only what makes it act is named, however it is
// spelled, wherever it lies, also in a repository without a work tree.
func TestGitConfig(t *testing.T) {
	const evil = `# comment
[core] fsmonitor = ./x
	hooksPath=hooks
[CORE]
	SSHCommand = "ssh -o ProxyCommand=x" ; comment
[diff "a ] b"]
	textconv = t
[filter.f]
	clean = c
[alias]
	st = "!sh -c x"
[includeIf "gitdir:/"]
	path = p
[url "ext::sh"]
	insteadOf = https://
[credential "https://h"]
	helper = !x
`
	want := []string{"core.fsmonitor", "core.hookspath", "core.sshcommand", "diff.a ] b.textconv", "filter.f.clean", "alias.st", "includeif.gitdir:/.path", "url.ext::sh.insteadof", "credential.https://h.helper"}
	w, _ := tree(t, map[string]string{
		".git/config": evil, ".git/config.worktree": evil, ".git/modules/m/config": evil,
		"testdata/bare/HEAD": "x", "testdata/bare/objects/": "", "testdata/bare/refs/": "", "testdata/bare/config": evil,
	})
	got := findings(t, w, review.Options{UID: -1})
	for _, name := range []string{".git/config", ".git/config.worktree", ".git/modules/m/config", "testdata/bare/config"} {
		if len(got[name]) != len(want) {
			t.Errorf("%s: got %q", name, got[name])
		}
		for _, key := range want {
			if !slices.ContainsFunc(got[name], func(why string) bool { return strings.HasPrefix(why, "git setting "+key+" ") }) {
				t.Errorf("%s: %s is not named in %q", name, key, got[name])
			}
		}
	}
	if why := got["testdata/bare/HEAD"]; len(why) != 1 {
		t.Errorf("the buried repository: %q", why)
	}
}

// A .git that leads elsewhere is named with where.
func TestGitLink(t *testing.T) {
	w, _ := tree(t, map[string]string{"a/.git": "gitdir: /elsewhere\n", "b/.git": "-> ../store"})
	got := findings(t, w, review.Options{UID: -1})
	if why := strings.Join(got["a/.git"], ""); !strings.Contains(why, "/elsewhere") {
		t.Errorf("file: %q", why)
	}
	if why := strings.Join(got["b/.git"], ""); !strings.Contains(why, "../store") {
		t.Errorf("link: %q", why)
	}
}

// Unusual rights are named: set-id bits, files everybody may write, files of
// others, and what is no file at all; and programs that take the place of the
// host's.
func TestRights(t *testing.T) {
	w, dir := tree(t, map[string]string{"s": "", "g": "", "w": "", "git": "", "bin/ls": "", "tool": "", "ok": "", "tmp/": "", "open/": ""})
	for name, mode := range map[string]uint32{"s": 0o4755, "g": 0o2755, "w": 0o666, "git": 0o755, "bin/ls": 0o755, "tool": 0o755, "tmp": 0o1777, "open": 0o777} {
		if err := syscall.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := findings(t, w, review.Options{UID: os.Geteuid()})
	for name, says := range map[string]string{"s": "set-user-id", "g": "set-group-id", "w": "every user", "open": "every user", "git": "name of a program", "bin/ls": "name of a program", "fifo": "FIFO"} {
		if why := strings.Join(got[name], "\n"); !strings.Contains(why, says) {
			t.Errorf("%s: %q, want it to say %q", name, why, says)
		}
	}
	for _, name := range []string{"ok", "tool", "tmp"} {
		if got[name] != nil {
			t.Errorf("%s: %q", name, got[name])
		}
	}
	if got := findings(t, w, review.Options{UID: os.Geteuid() + 1}); len(got["ok"]) != 1 || !strings.Contains(got["ok"][0], "another user") {
		t.Errorf("a file of another: %q", got["ok"])
	}
}

// Since leaves out what has not changed, and a set-back modification time does
// not hide a change.
func TestSince(t *testing.T) {
	w, dir := tree(t, map[string]string{"Makefile": "a", ".envrc": "a", ".npmrc": "a"})
	time.Sleep(20 * time.Millisecond)
	since := time.Now()
	time.Sleep(20 * time.Millisecond)
	if err := os.WriteFile(filepath.Join(dir, ".envrc"), []byte("b"), 0o644); err != nil {
		t.Fatal(err)
	}
	old := time.Unix(1e9, 0)
	if err := os.Chtimes(filepath.Join(dir, ".envrc"), old, old); err != nil {
		t.Fatal(err)
	}
	got := findings(t, w, review.Options{UID: -1, Since: since})
	if len(got) != 1 || got[".envrc"] == nil {
		t.Errorf("got %v, want .envrc alone", got)
	}
}

// Dependencies are one finding for each directory of them.
func TestDependencies(t *testing.T) {
	w, _ := tree(t, map[string]string{
		"node_modules/a/package.json": "x", "node_modules/a/Makefile": "x", "node_modules/.bin/git": "x", "sub/node_modules/b/index.js": "x", "node_modules/a/node_modules/c/x.js": "x",
		".venv/bin/python": "-> /usr/bin/python3",
	})
	got := findings(t, w, review.Options{UID: -1})
	if len(got) != 3 || len(got["node_modules"]) != 1 || len(got["sub/node_modules"]) != 1 || len(got[".venv"]) != 1 {
		t.Errorf("got %v", got)
	}
}

// What cannot be read is told, never passed over.
func TestUnread(t *testing.T) {
	w, _ := tree(t, map[string]string{".git/config": strings.Repeat("#", 2<<20)})
	r, err := review.Run(t.Context(), w, review.Options{UID: -1})
	if err != nil || len(r.Unread) != 1 || r.Unread[0].Path != ".git/config" || !strings.Contains(r.Unread[0].Reason, "TOO_LARGE") {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestCancelled(t *testing.T) {
	w, _ := tree(t, map[string]string{"a/b": ""})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := review.Run(ctx, w, review.Options{}); err == nil {
		t.Error("a cancelled review succeeds")
	}
}

func FuzzGitConfig(f *testing.F) {
	f.Add("[core]\n\tpager = x\n")
	f.Add("[a \"b\\\"]\"] c = \"!d\"\n[")
	f.Fuzz(func(t *testing.T, text string) {
		w, _ := tree(t, map[string]string{".git/config": text})
		if _, err := review.Run(t.Context(), w, review.Options{UID: -1}); err != nil {
			t.Error(err)
		}
	})
}
