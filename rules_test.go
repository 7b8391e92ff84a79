package wsctl_test

import (
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// forbiddenCall is a function or method that no code of ours calls, with the
// reason. An empty package means a method, on whatever value.
type forbiddenCall struct {
	packages []string // import paths that the function belongs to
	names    []string
	in       func(f source) bool
	why      string
}

// hostFiles are the files and directories (with a slash at the end) outside host
// and cmd that open files of this machine by path, with what they open. A
// workspace's files are host's alone.
var hostFiles = map[string]string{
	"internal/":             "test support",
	"workspace/drivertest/": "the suite makes what a driver finds",
	"keeper/":               "processes, below /proc",
	"reaper/":               "the owner's identity, below /proc and /etc",
	"remote/listen_unix.go": "the server's own socket",
	"snapshot/directory.go": "the store, which lies outside the root",
	"snapshot/fork.go":      "a new directory, before anybody can reach it",

	"spool/": "the server's own directory, and in it what no command can reach",

	"orchestrator/orchestrator.go": "the server's own directory",
	"orchestrator/job_run.go":      "what jobs have written, in it",
	"orchestrator/job_keep.go":     "the same",
	"orchestrator/audit.go":        "the server's own log",
	"orchestrator/store.go":        "the server's own database",
	"orchestrator/roots.go":        "new roots, before anybody can reach them",
	"orchestrator/upload.go":       "the server's own uploads",
	"orchestrator/kept.go":         "the server's own snapshot stores",
}

var forbiddenCalls = []forbiddenCall{
	{
		names: []string{"CopyToContainer", "CopyFromContainer", "ContainerStatPath"},
		in:    func(source) bool { return true },
		why:   "the archive endpoints of the engine resolve a path and use it later, as root",
	},
	{
		packages: []string{"os", "syscall", "golang.org/x/sys/unix"},
		names:    []string{"Chmod", "Chown", "Lchown", "Chtimes", "Utimes", "UtimesNano", "Lutimes", "Futimesat"},
		in:       func(f source) bool { return f.dir == "host" && !f.test },
		why:      "a path may lead elsewhere by then: change the descriptor",
	},
	{
		packages: []string{"os"},
		names:    []string{"Open", "OpenFile", "Create", "ReadFile", "WriteFile", "ReadDir", "Rename", "Remove", "RemoveAll", "Mkdir", "MkdirAll", "Symlink", "Link", "Truncate"},
		in:       opensNoFiles,
		why:      "files are host's; where this one is no workspace's, give its file a row in hostFiles",
	},
	{
		packages: []string{"os"},
		names:    []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"},
		in: func(f source) bool {
			return !f.test && !strings.HasPrefix(f.name, "cmd/") && !strings.HasPrefix(f.name, "internal/") && f.dir != "workspacetest"
		},
		why: "only a command line, and what is for tests, reads the environment",
	},
}

// opensNoFiles tells whether the rule on opening files by path holds in f.
func opensNoFiles(f source) bool {
	if f.test || f.dir == "host" || strings.HasPrefix(f.name, "cmd/") {
		return false
	}
	for prefix := range hostFiles {
		if strings.HasPrefix(f.name, prefix) {
			return false
		}
	}
	return true
}

func TestForbiddenCallsAreAbsent(t *testing.T) {
	set, files := sources(t)
	for _, f := range files {
		names := importNames(t, f)
		ast.Inspect(f.File, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			imported := ""
			if x, ok := sel.X.(*ast.Ident); ok {
				imported = names[x.Name]
			}
			for _, rule := range forbiddenCalls {
				if !slices.Contains(rule.names, sel.Sel.Name) || !rule.in(f) {
					continue
				}
				if rule.packages == nil || slices.Contains(rule.packages, imported) {
					t.Errorf("%s: %s: %s", set.Position(sel.Pos()), sel.Sel.Name, rule.why)
				}
			}
			return true
		})
	}
}

// importNames are the import paths of a file by the name they have in it.
func importNames(t *testing.T, f source) map[string]string {
	t.Helper()
	names := map[string]string{}
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		name := imported[strings.LastIndex(imported, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	return names
}

func TestNothingRunsBeforeMain(t *testing.T) {
	set, files := sources(t)
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: an init function runs whether wanted or not", set.Position(fn.Pos()))
			}
		}
	}
}

// forbiddenText is text that no file of this tree holds. The patterns are put
// together here so that this file does not hold it either.
var forbiddenText = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{
		regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "X" + "XX"}, "|") + `)\b`),
		"unfinished work is an issue, not a comment",
	},
	{
		regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
			hostName("proxy", "golang", "org"), hostName("sum", "golang", "org"), hostName("deb", "debian", "org"),
			hostName("registry", "npmjs", "org"), hostName("pypi", "org"), hostName("index", "crates", "io"),
			hostName("repo", "maven", "apache", "org"), hostName("registry-1", "docker", "io"),
		}, "|") + `)\b`),
		"which package registry a machine uses is its own setting",
	},
}

// hostName is a regular expression for a host name.
func hostName(labels ...string) string { return strings.Join(labels, `\.`) }

func TestForbiddenTextIsAbsent(t *testing.T) {
	walk(t, func(name string) {
		body, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Error(err)
			return
		}
		if bytes.IndexByte(body, 0) >= 0 {
			return
		}
		for _, rule := range forbiddenText {
			if at := rule.pattern.FindIndex(body); at != nil {
				line := 1 + bytes.Count(body[:at[0]], []byte("\n"))
				t.Errorf("%s:%d: %q: %s", name, line, body[at[0]:at[1]], rule.why)
			}
		}
	})
}

// TestTheRulesSeeWhatTheyForbid is the positive control of this file: a rule that
// matches nothing proves nothing.
func TestTheRulesSeeWhatTheyForbid(t *testing.T) {
	for _, text := range []string{"// TO" + "DO: later", "see proxy." + "golang.org"} {
		if !slices.ContainsFunc(forbiddenText, func(rule struct {
			pattern *regexp.Regexp
			why     string
		},
		) bool {
			return rule.pattern.MatchString(text)
		}) {
			t.Errorf("no rule sees %q", text)
		}
	}
	if forbiddenText[0].pattern.MatchString("mktemp /tmp/name." + strings.Repeat("X", 6)) {
		t.Error("a template of mktemp is no unfinished work")
	}
}
