package wsctl_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/wsctl/wsctl"

// layers is the order of this module: a package, and which others of ours it
// may import. Imports point down only. Do not change it to make a build pass:
// a new arrow is a decision, and its reason belongs in docs/decisions.md.
//
// A row may be there before its package is; a package without a row fails.
var layers = map[string][]string{
	"workspace":            {},
	"workspace/drivertest": {"workspace"},
	"wrapper":              {},
	"keeper":               {"wrapper"},
	"review":               {"workspace"},
	"spool":                {"keeper", "wrapper"},
	"host":                 {"workspace", "keeper", "wrapper", "spool"},
	"reaper":               {"workspace"},
	"container":            {"workspace", "host", "wrapper", "keeper", "reaper", "spool"},
	"snapshot":             {"workspace", "host"},
	"search":               {"workspace"},
	"tools":                {"workspace", "snapshot", "search"},
	"mcpserver":            {"tools"},
	"remote":               {"workspace"},
	"orchestrator":         {"workspace", "host", "keeper", "spool", "container", "reaper", "snapshot", "remote"},
	"workspacetest":        {"workspace", "container"},
	"cmd/wskeeper":         {"keeper"},
	"cmd/wsctl":            {"workspace", "review", "host", "wrapper", "keeper", "reaper", "container", "snapshot", "search", "tools", "mcpserver", "remote", "orchestrator"},

	// Support of tests and measurements; nothing above imports it but tests.
	"internal/bench":            {"workspace", "host", "snapshot", "container", "keeper", "reaper", "search", "tools", "remote", "orchestrator"},
	"internal/enginetest":       {},
	"internal/enginetest/probe": {},
	"internal/testrun":          {},
}

// testOnly is what every test may import beside what its package may, and the
// package itself.
var testOnly = []string{"workspace", "workspace/drivertest", "internal/enginetest"}

// testAlso is what the tests of some packages may import beside that, with the
// reason.
var testAlso = map[string]map[string]string{
	"workspace/drivertest": {"host": "the suite is judged by breaking a real driver", "snapshot": "and real snapshots"},
	"host":                 {"snapshot": "the conformance suite restores"},
	"container":            {"snapshot": "the conformance suite restores"},
	"snapshot":             {"container": "a restore beside commands that are not trusted"},
	"review":               {"host": "a tree is read through a real guard"},
	"tools":                {"host": "tools are tried on a real directory"},
	"search":               {"host": "what is searched in tests is a real directory"},
	"mcpserver":            {"host": "tools are served over a real directory", "snapshot": "and its kept states"},
	"spool":                {"host": "jobs of tests are real ones"},
	"remote": {
		"host":      "what is served in tests is real",
		"keeper":    "and ends what escapes, as on a server",
		"container": "a container is served as well",
		"snapshot":  "and its snapshots",
	},
}

// everything marks directories of tests only, which see the whole house.
var everything = []string{"integration", "."}

// foreign are imports from outside that only some packages may have, by prefix.
var foreign = []struct {
	prefix, why string
	packages    []string
}{
	{"github.com/docker/docker/", "the Docker client stays behind one driver", []string{"container", "reaper", "internal/enginetest", "internal/bench"}},
	{"github.com/moby/moby/client", "there is one Docker client, github.com/docker/docker", nil},
	{"github.com/modelcontextprotocol/", "MCP is a transport over tools", []string{"mcpserver"}},
	{"github.com/spf13/cobra", "only a command line has flags", []string{"cmd/wsctl"}},
	{"github.com/testcontainers/", "for tests and what we are measured against", []string{"internal/bench"}},
}

// standardOnly are packages that import nothing from outside the standard
// library.
var standardOnly = []string{"workspace"}

// source is a parsed file of this module.
type source struct {
	*ast.File
	name string // slash-separated, below the module root
	dir  string // its package's directory, "." for the root
	test bool
}

// sources parses every Go file of this module, whatever system it is for.
func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	set := token.NewFileSet()
	var found []source
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") {
			return
		}
		f, err := parser.ParseFile(set, filepath.FromSlash(name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		found = append(found, source{File: f, name: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go")})
	})
	if len(found) == 0 {
		t.Fatal("no Go file found")
	}
	return set, found
}

// walk calls visit with every file that belongs to this module's tree, testdata
// and what git ignores left out.
func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "dist", "testdata", ".wsctl"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			visit(filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestImportsPointDown(t *testing.T) {
	_, files := sources(t)
	for _, f := range files {
		if slices.Contains(everything, f.dir) {
			if !f.test {
				t.Errorf("%s: %s holds tests only", f.name, f.dir)
			}
			continue
		}
		may, known := layers[f.dir]
		if !known {
			t.Errorf("%s: package %s has no row in the table of deps_test.go", f.name, f.dir)
			continue
		}
		if f.test {
			may = slices.Concat(may, testOnly, []string{f.dir}, slices.Collect(maps.Keys(testAlso[f.dir])))
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if own, ok := strings.CutPrefix(imported, modulePath+"/"); ok {
				if !slices.Contains(may, own) {
					t.Errorf("%s: %s may not import %s", f.name, f.dir, own)
				}
				continue
			}
			checkForeign(t, f, imported)
		}
	}
}

// checkForeign checks an import that is not ours.
func checkForeign(t *testing.T, f source, imported string) {
	t.Helper()
	if f.test {
		return
	}
	first, _, _ := strings.Cut(imported, "/")
	if strings.Contains(first, ".") && slices.Contains(standardOnly, f.dir) {
		t.Errorf("%s: %s imports the standard library only, not %s", f.name, f.dir, imported)
	}
	for _, rule := range foreign {
		if strings.HasPrefix(imported, rule.prefix) && !slices.Contains(rule.packages, f.dir) {
			t.Errorf("%s: %s may not import %s: %s", f.name, f.dir, imported, rule.why)
		}
	}
}

// TestTheTableHasNoCycle keeps the table itself an order.
func TestTheTableHasNoCycle(t *testing.T) {
	const walking, done = 1, 2
	state := map[string]int{}
	var visit func(pkg string)
	visit = func(pkg string) {
		if _, known := layers[pkg]; !known {
			t.Errorf("%s is imported in the table and has no row", pkg)
		}
		state[pkg] = walking
		for _, below := range layers[pkg] {
			switch state[below] {
			case walking:
				t.Errorf("%s and %s import each other", pkg, below)
			case 0:
				visit(below)
			}
		}
		state[pkg] = done
	}
	for pkg := range layers {
		if state[pkg] == 0 {
			visit(pkg)
		}
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	_, files := sources(t)
	comments := map[string][]string{}
	for _, f := range files {
		if f.test || slices.Contains(everything, f.dir) {
			continue
		}
		if _, seen := comments[f.dir]; !seen {
			comments[f.dir] = nil
		}
		if f.Doc != nil {
			comments[f.dir] = append(comments[f.dir], f.name)
		}
	}
	for dir, in := range comments {
		if len(in) != 1 {
			t.Errorf("package %s has %d package comments %v; one is right", dir, len(in), in)
		}
	}
}

func TestPackagesAreNamedForWhatTheyHold(t *testing.T) {
	vague := []string{"util", "utils", "common", "helper", "helpers", "shared", "core", "base", "types", "models", "interfaces", "manager", "misc"}
	_, files := sources(t)
	for _, f := range files {
		name := strings.TrimSuffix(f.Name.Name, "_test")
		if slices.Contains(vague, name) || strings.HasSuffix(name, "util") || slices.Contains(vague, path.Base(f.dir)) {
			t.Errorf("%s: the name of package %s says nothing", f.name, name)
		}
	}
}
