package review

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// A trigger is a name that some program of the host acts on: it runs what the
// file says, or takes settings from it that can name a program. Patterns are
// doublestar globs over the lower-cased path below any directory of the tree,
// since file systems that fold case take .GIT for .git.
type trigger struct {
	patterns []string
	reason   string
}

// triggers is what is known, grouped by who acts on it. A file that matches
// several is named with the first.
var triggers = []trigger{
	// Git. What is in its configuration is looked at closer: see gitConfig.
	{[]string{".git/hooks/*", ".git/modules/**/hooks/*", ".git/worktrees/*/hooks/*"}, "git runs its hooks at commit, checkout, merge and push"},
	{[]string{".git/info/attributes", ".gitattributes"}, "git attributes can send files through filter, diff and merge programs"},
	{[]string{".gitmodules"}, "submodule settings name what git fetches, and can name a command for an update"},
	{[]string{".git/objects/info/alternates", ".git/commondir", ".git/worktrees/*/{commondir,gitdir}"}, "it sends git to another repository, with the settings of that one"},
	{[]string{".git/rebase-merge/{git-rebase-todo,done}", ".git/sequencer/todo"}, "a rebase that is continued runs the exec lines of its list"},
	{[]string{".gitconfig", ".config/git/*", ".lfsconfig", ".gitcookies"}, "it is taken for git's settings when a home directory is here, or by git-lfs"},

	// Shells and the programs that read a start file where they are started.
	{[]string{".envrc", ".direnv/**", ".env.vault", "mise.toml", ".mise.toml", ".mise/**", "mise.local.toml", ".rtx.toml", ".tool-versions", ".flox/**", "devbox.json", ".autoenv", ".in", ".out"}, "a shell hook (direnv, mise, asdf) loads it on entering the directory"},
	{[]string{".env", ".env.*"}, "programs load it as their environment: it can name hosts, proxies and programs"},
	{[]string{".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".kshrc", ".cshrc", ".tcshrc", ".inputrc", ".config/fish/**"}, "a shell runs it when a home directory is here"},
	{[]string{".gdbinit", ".lldbinit", ".gdb_history", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".dir-locals.el", ".dir-locals-2.el", ".emacs", ".tmux.conf", ".screenrc", ".irbrc", ".pryrc", ".ghci", ".rprofile", ".renviron", ".psqlrc", ".sqliterc", ".mongorc.js", ".pdbrc", ".pythonrc", ".julia/config/startup.jl"}, "an editor, debugger or interpreter that is started here runs it"},
	{[]string{".ssh/**", ".gnupg/**", ".netrc", ".curlrc", ".wgetrc", ".aws/**", ".kube/**", ".docker/config.json", ".config/gh/**", ".terraformrc"}, "a client that takes this for its settings connects, and runs helpers, as they say"},
	{[]string{"*.desktop", ".directory", "autorun.inf", ".config/autostart/**", ".config/systemd/**", ".crontab"}, "a desktop or a service manager can start programs from it"},

	// Editors.
	{[]string{".vscode/**", "*.code-workspace", ".idea/**", "*.iml", ".run/*.xml", ".fleet/**", ".zed/**", ".nova/**", ".sublime/**", "*.sublime-project", "*.sublime-settings", ".vs/**", ".settings/**", ".project", ".classpath", "nbproject/**", ".theia/**", ".helix/**", ".nvim/**"}, "an editor takes tasks, launchers, extensions and paths of programs from it"},
	{[]string{".devcontainer.json", ".devcontainer/**", ".gitpod.yml", ".gitpod.dockerfile", ".idx/**"}, "a development container is built and started from it, with commands that may run on the host"},

	// Agents.
	{[]string{".mcp.json", "mcp.json", ".cursor/**", ".cursorrules", ".claude/**", ".claude.json", "claude.md", "claude.local.md", "agents.md", "agents.override.md", "agent.md", "gemini.md", ".gemini/**", ".codex/**", ".opencode/**", "opencode.json", "opencode.jsonc", ".aider*", ".continue/**", ".continuerc.json", ".windsurf/**", ".windsurfrules", ".codeium/**", ".clinerules", ".clinerules/**", ".roo/**", ".roomodes", ".kilocode/**", ".kiro/**", ".amazonq/**", ".junie/**", ".goose/**", ".goosehints", ".openhands/**", ".augment/**", ".factory/**", ".qwen/**", ".crush.json", "crush.json", ".agents/**", ".rules", ".github/copilot-instructions.md", ".github/{prompts,instructions,agents,chatmodes,skills,hooks}/**"}, "a coding agent takes instructions, hooks or servers to start from it"},

	// Hooks of version control that are files of the tree.
	{[]string{".husky/**", ".huskyrc*", ".githooks/**", "githooks/**", "git-hooks/**", "lefthook.{yml,yaml,toml,json}", ".lefthook.{yml,yaml,toml,json}", "lefthook-local.*", ".lefthook/**", ".pre-commit-config.yaml", ".pre-commit-hooks.yaml", ".overcommit.yml", ".lintstagedrc*", "lint-staged.config.*", "captainhook.json", "grumphp.yml", ".simple-git-hooks.*"}, "a hook manager runs it at commit"},
	{[]string{".hg/hgrc", ".hg/hgrc-not-shared", ".svn/**", ".jj/repo/config.toml", ".bzr/**"}, "another version control reads hooks or programs from it"},

	// Package managers and languages.
	{[]string{"package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/releases/*", ".yarn/plugins/**", ".yarn/sdks/**", ".pnp.cjs", ".pnp.loader.mjs", ".pnpmfile.cjs", ".pnpmfile.mjs", "pnpm-workspace.yaml", "bunfig.toml", "deno.json", "deno.jsonc", "lerna.json", "nx.json", "project.json", "turbo.json", "rush.json", ".node-version", ".nvmrc", ".volta"}, "installing or running scripts with a JavaScript package manager runs what it says"},
	{[]string{".eslintrc.{js,cjs}", "eslint.config.*", ".prettierrc.{js,cjs,mjs,ts}", "prettier.config.*", "stylelint.config.*", ".babelrc.{js,cjs}", "babel.config.*", "*.config.{js,cjs,mjs,ts,mts,cts}", "gulpfile.*", "gruntfile.*", "karma.conf.*", ".mocharc.{js,cjs}", "tsconfig.json", "jsconfig.json", ".swcrc"}, "linters, bundlers and editors load it as a program, or plug-ins that it names"},
	{[]string{"setup.py", "setup.cfg", "pyproject.toml", "conftest.py", "sitecustomize.py", "usercustomize.py", "*.pth", "tox.ini", "noxfile.py", "pytest.ini", ".pytest.ini", "tasks.py", "fabfile.py", "pipfile", "requirements*.txt", "constraints*.txt", "pip.conf", "pip.ini", "uv.toml", "poetry.toml", "pdm.toml", ".python-version", "pyvenv.cfg", "environment.yml", ".pylintrc", "pylintrc", "mypy.ini", ".jupyter/**", ".ipython/**", "jupyter_*config.py", "hatch.toml", "hatch_build.py", "manage.py"}, "Python, its installers or its test runners load it at start"},
	{[]string{"gemfile", "*.gemspec", "rakefile", "*.rake", ".rspec", ".bundle/config", ".ruby-version", ".rubocop.yml", "guardfile", "capfile", "composer.json", "phpunit.xml*", ".php-cs-fixer*.php", "phpstan.neon*", ".user.ini", "php.ini", "makefile.pl", "build.pl", ".perlcriticrc", "cpanfile"}, "Ruby, PHP or Perl tools run it"},
	{[]string{"cargo.toml", "build.rs", ".cargo/**", "rust-toolchain", "rust-toolchain.toml", "rustfmt.toml", "clippy.toml"}, "cargo builds and runs it, or takes compilers and runners from it"},
	{[]string{"go.mod", "go.work", "go.env", ".golangci.*", "magefile.go", "magefiles/**", "tools.go", ".goreleaser.*", ".air.toml"}, "it decides which toolchain and tools the go command downloads and runs, or a Go tool runs it"},
	{[]string{"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "init.gradle*", "gradle.properties", "gradlew", "gradlew.bat", "gradle/**", "buildsrc/**", "pom.xml", "mvnw", "mvnw.cmd", ".mvn/**", "build.xml", "ivy.xml", "build.sbt", "project/*.{sbt,scala,properties}", ".sbtopts", ".jvmopts", "build.sc", ".scala-build/**", "deps.edn", "project.clj", "bb.edn", "shadow-cljs.edn"}, "a JVM build tool, and an editor that imports the project, runs it"},
	{[]string{"*.csproj", "*.fsproj", "*.vbproj", "*.vcxproj", "*.props", "*.targets", "*.sln", "nuget.config", "global.json", "dotnet-tools.json", "*.ruleset", "msbuild.rsp", "directory.build.rsp", "package.swift", "*.xcodeproj/**", "*.xcworkspace/**", "podfile", "cartfile", "fastlane/**", "mix.exs", "rebar.config*", "config/*.exs", "*.cabal", "stack.yaml", "setup.hs", "hie.yaml", "dune", "dune-project", "*.opam", "build.zig", "build.zig.zon", "dub.json", "dub.sdl", "*.nimble", "nim.cfg", "*.nims", "shard.yml", "pubspec.yaml", "analysis_options.yaml", "elm.json", "v.mod", "gleam.toml"}, "a build tool, and an editor that loads the project, runs it"},

	// Build tools of any language.
	{[]string{"makefile", "gnumakefile", "bsdmakefile", "*.mk", "makefile.*", "cmakelists.txt", "cmakepresets.json", "cmakeuserpresets.json", "*.cmake", "configure", "configure.ac", "autogen.sh", "bootstrap*.sh", "meson.build", "sconstruct", "sconscript", "wscript", "waf", "premake*.lua", "xmake.lua", "justfile", ".justfile", "*.just", "taskfile.y*ml", "tasks.toml", "earthfile", "tiltfile", "dodo.py", "pavement.py", "build.ninja", "tup*", "shakefile.hs"}, "make and its like run it"},
	{[]string{".bazelrc", "*.bazelrc", ".bazelversion", "module.bazel", "workspace", "workspace.bazel", "build", "build.bazel", "*.bzl", "tools/bazel", ".buckconfig*", "buck", "*.buck", "buck2", "pants.toml", "pants", "please", ".plzconfig"}, "a build system runs it, or takes programs and flags from it"},
	{[]string{"flake.nix", "flake.lock", "shell.nix", "default.nix", "*.nix", "guix.scm", "manifest.scm", "channels.scm"}, "nix or guix evaluates it, also from a shell hook"},
	{[]string{"compile_flags.txt", "compile_commands.json", ".clangd", ".clang-tidy", ".ccls", ".ycm_extra_conf.py"}, "a language server takes compilers and flags from it"},

	// Containers, infrastructure, CI.
	{[]string{"dockerfile", "dockerfile.*", "*.dockerfile", "containerfile", ".dockerignore", "compose.y*ml", "compose.*.y*ml", "docker-compose*.y*ml", "docker-bake.*", "skaffold.yaml", "vagrantfile", "packer.json", "*.pkr.hcl", "*.tf", "*.tfvars", "*.tofu", "terragrunt.hcl", ".terraform/**", "pulumi.yaml", "pulumi.*.yaml", "ansible.cfg", "playbook*.y*ml", "inventory*", "chart.yaml", "helmfile.y*ml", "kustomization.y*ml", "devspace.yaml", "procfile", "serverless.y*ml", "sam*.y*ml", "cdk.json", "wrangler.toml", "fly.toml", "netlify.toml", "vercel.json"}, "containers or machines are built and started from it, with what it mounts"},
	{[]string{".github/workflows/**", ".github/actions/**", "action.yml", "action.yaml", ".gitlab-ci.yml", ".gitlab/**", ".circleci/**", "jenkinsfile*", "azure-pipelines*.y*ml", ".azure-pipelines/**", ".azuredevops/**", ".travis.yml", ".drone.yml", ".drone.star", ".buildkite/**", "bitbucket-pipelines.yml", "appveyor.yml", ".appveyor.yml", ".woodpecker*", ".woodpecker/**", "cloudbuild.y*ml", ".cirrus.yml", ".cirrus.star", ".gitea/**", ".forgejo/**", ".builds/**", ".semaphore/**", "codemagic.yaml", "buildspec.y*ml", ".teamcity/**", ".tekton/**", ".dagger/**", "dagger.json", "renovate.json*", ".renovaterc*", ".github/dependabot.yml", ".github/codeowners", "codeowners"}, "a CI system runs it with the rights of the project"},
}

// hostPrograms are names under which an executable in the tree runs instead of
// the real one where PATH holds "." or the directory.
var hostPrograms = set("bash", "cat", "cargo", "cc", "cd", "chmod", "code", "cp", "curl", "docker", "find", "gcc", "gh", "git", "go", "grep", "kubectl", "ls", "make", "mv",
	"node", "npm", "npx", "open", "pip", "pip3", "pnpm", "podman", "python", "python3", "rg", "rm", "ruby", "sed", "sh", "ssh", "sudo", "tar", "uv", "vim", "wsctl", "yarn", "zsh")

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// whole are directories that tools of the host run code from and that hold too
// many files to name each: they get one finding.
var whole = map[string]string{
	"node_modules":  "JavaScript tools run the programs and modules in it",
	".venv":         "Python tools and shells run the programs in it",
	"venv":          "Python tools and shells run the programs in it",
	"__pycache__":   "Python runs the compiled files in it instead of the sources when their times agree",
	".tox":          "Python tools run the programs in it",
	".nox":          "Python tools run the programs in it",
	"site-packages": "Python loads the modules in it",
}

// index finds the trigger of a path without trying all patterns: by its exact
// last part, or else by the patterns that have a wildcard.
type index struct {
	exact map[string]string // last part → reason
	globs []globTrigger
}

type globTrigger struct {
	pattern string
	reason  string
}

func newIndex() *index {
	ix := &index{exact: map[string]string{}}
	for _, t := range triggers {
		for _, p := range t.patterns {
			if !strings.ContainsAny(p, "*?[{/") {
				if _, taken := ix.exact[p]; !taken {
					ix.exact[p] = t.reason
				}
				continue
			}
			// A pattern counts below any directory: the repository may be
			// nested.
			ix.globs = append(ix.globs, globTrigger{"**/" + p, t.reason})
		}
	}
	return ix
}

// reason tells why a path matters, "" when it is not known to.
func (ix *index) reason(name string) string {
	name = fold(name)
	base := path.Base(name)
	if why := ix.exact[base]; why != "" {
		return why
	}
	for _, g := range ix.globs {
		if ok, _ := doublestar.Match(g.pattern, name); ok {
			return g.reason
		}
	}
	return ""
}

// fold spells a path as a careless file system would: lower case, without the
// dots and spaces that some drop from the end of a name, and without the code
// points that HFS+ ignores.
func fold(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, strings.ToLower(name))
	parts := strings.Split(name, "/")
	for i, p := range parts {
		if t := strings.TrimRight(p, ". "); t != "" {
			parts[i] = t
		}
		if parts[i] == "git~1" {
			parts[i] = ".git"
		}
	}
	return strings.Join(parts, "/")
}
