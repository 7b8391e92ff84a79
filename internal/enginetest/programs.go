package enginetest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// program is a static Go program of this module, built for Linux on this
// machine's architecture.
type program struct {
	pkg string // directory below the module root
	env string // names a finished build of it
}

var (
	keeper = sync.OnceValues(program{pkg: "cmd/wskeeper", env: "WSCTL_TEST_KEEPER"}.build)
	probe  = sync.OnceValues(program{pkg: "internal/enginetest/probe", env: "WSCTL_TEST_PROBE"}.build)
)

// Keeper returns the path of a static wskeeper with mode 0755, built once in a
// process and kept under the hash of its content.
func Keeper(t testing.TB) string {
	t.Helper()
	p, err := keeper()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Probe returns the path of a static program with mode 0755 that tries system
// calls a sandbox should refuse and prints a line about each; [ParseProbe] reads
// them. It takes the directory to work in as its argument, the current one by
// default, and leaves no file there. It harms nothing when it is unconfined.
func Probe(t testing.TB) string {
	t.Helper()
	p, err := probe()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// NoShell returns the reference of an image without any shell: [Probe] at
// /probe and a /tmp that everybody may write, nothing else.
func NoShell(t testing.TB) string {
	t.Helper()
	return Import(t, Image{Name: "noshell", Files: []File{
		{Name: "tmp/", Mode: 0o1777},
		FromHost(t, "probe", Probe(t), 0o755),
	}})
}

// ParseProbe reads what [Probe] printed: for each attempt "ok" where the call
// did what was asked, "stripped" where it passed but left the special mode bit
// out, "absent" where this architecture has no such call, the name of the signal
// it died of, or the name of the error, "EPERM".
func ParseProbe(output []byte) (map[string]string, error) {
	results := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(output))
	for lines.Scan() {
		name, result, ok := strings.Cut(lines.Text(), " ")
		if !ok || name == "" || result == "" {
			return nil, fmt.Errorf("probe: no result in line %q", lines.Text())
		}
		if _, twice := results[name]; twice {
			return nil, fmt.Errorf("probe: %s is there twice", name)
		}
		results[name] = result
	}
	if results["end"] != "ok" {
		return nil, fmt.Errorf("probe: cut short after %d lines", len(results))
	}
	delete(results, "end")
	return results, lines.Err()
}

// build links the program and moves it to a name that is the hash of its bytes:
// a reader never sees half a file, and a file in use is never replaced.
func (p program) build() (string, error) {
	if built := os.Getenv(p.env); built != "" {
		return built, nil
	}
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	dir, err := makeCache()
	if err != nil {
		return "", err
	}
	name := filepath.Base(p.pkg)
	tmp, err := os.MkdirTemp(dir, name+".build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, name)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, "./"+p.pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./%s: %w\n%s", p.pkg, err, said)
	}
	body, err := os.ReadFile(out)
	if err != nil {
		return "", err
	}
	if err := os.Chmod(out, 0o755); err != nil { // whatever the umask, containers run it as another user
		return "", err
	}
	final := filepath.Join(dir, fmt.Sprintf("%s-%x", name, sha256.Sum256(body))[:len(name)+17])
	if err := os.Rename(out, final); err != nil {
		return "", err
	}
	return final, nil
}

// ModuleRoot is the directory of this module's go.mod, found upwards from the
// current directory, which for a test is its package's.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod above the current directory")
		}
		dir = up
	}
}
