//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// nobody is the user and group id of the second pass, by convention.
const nobody = 65534

// asOtherUser tests those of the packages that the options name once more, as a
// user without rights. Only root can; everybody else's first pass was that
// already. Test programs are built here and run in a copy of the source tree, both where that
// user can read them, with a HOME and TMPDIR of its own.
func asOtherUser(ctx context.Context, o options, r *report, stderr io.Writer) error {
	chosen, err := directories(ctx, o.packages, stderr)
	if err != nil {
		return err
	}
	base, err := os.MkdirTemp("/tmp", "wsctl-testrun-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	p := secondPass{options: o, base: base, stderr: stderr}
	if err := p.prepare(ctx); err != nil {
		return err
	}
	r.begin(fmt.Sprintf(" as uid %d", nobody))
	// As go test does it: as many packages at once as there are processors.
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for _, dir := range chosen {
		short := slices.Contains(o.otherShort, dir)
		if short || slices.Contains(o.other, dir) {
			all.Go(func() error { return p.test(ctx, dir, o.only, short, r) })
		}
	}
	if err := all.Wait(); err != nil || !o.retry {
		return err
	}
	return again(r, func(pkg, pattern string, r *report) error {
		dir := strings.TrimPrefix(pkg, modulePath+"/")
		return p.test(ctx, dir, pattern, slices.Contains(o.otherShort, dir), r)
	})
}

// directories are those of the packages with tests that the patterns match,
// relative to the module root.
func directories(ctx context.Context, patterns []string, stderr io.Writer) ([]string, error) {
	args := []string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"}
	cmd := exec.CommandContext(ctx, "go", append(args, patterns...)...)
	cmd.Stderr = stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var dirs []string
	for _, pkg := range strings.Fields(string(out)) {
		dirs = append(dirs, strings.TrimPrefix(pkg, modulePath+"/"))
	}
	return dirs, nil
}

// secondPass is the run as another user.
type secondPass struct {
	options
	base   string // of everything it makes
	stderr io.Writer
	env    []string
	groups []uint32
}

// prepare makes the directories, the copy of the sources and the programs that
// tests would build if they could: that user cannot read root's module cache.
func (p *secondPass) prepare(ctx context.Context) error {
	if err := os.Chmod(p.base, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"home", "tmp"} {
		dir := filepath.Join(p.base, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			return err
		}
	}
	if err := copySources(filepath.Join(p.base, "src")); err != nil {
		return err
	}
	p.env = environment(os.Environ(),
		"HOME="+filepath.Join(p.base, "home"), "USER=nobody", "LOGNAME=nobody", "TMPDIR="+filepath.Join(p.base, "tmp"))
	for env, pkg := range map[string]string{"WSCTL_TEST_KEEPER": "./cmd/wskeeper", "WSCTL_TEST_PROBE": "./internal/enginetest/probe"} {
		if _, err := os.Stat(pkg); err != nil {
			continue
		}
		out := filepath.Join(p.base, filepath.Base(pkg))
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stdout, cmd.Stderr = p.stderr, p.stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("go build %s: %w", pkg, err)
		}
		p.env = append(p.env, env+"="+out)
	}
	p.groups = p.engineGroup()
	return nil
}

// engineGroup is the group that may use the engine's socket, as an
// administrator would give it to a user. Where that is root's own, the user goes
// without the engine and its tests are skipped, whatever was required.
func (p *secondPass) engineGroup() []uint32 {
	st, err := os.Stat("/var/run/docker.sock")
	if err != nil {
		return nil
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Gid != 0 && st.Mode()&0o020 != 0 {
		return []uint32{sys.Gid}
	}
	p.env = environment(p.env, "WSCTL_REQUIRE_DOCKER=")
	return nil
}

// test builds the tests of one package and runs them as the other user.
func (p *secondPass) test(ctx context.Context, dir, only string, short bool, r *report) error {
	pkg := modulePath + "/" + dir
	bin := filepath.Join(p.base, strings.ReplaceAll(dir, "/", "-")+".test")
	args := []string{"test", "-c", "-o", bin}
	if p.race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+dir)...)
	cmd.Stdout, cmd.Stderr = p.stderr, p.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go test -c %s: %w", dir, err)
	}
	args = []string{"-test.v=test2json", "-test.timeout=" + p.timeout.String(), "-test.parallel=" + strconv.Itoa(parallel())}
	if short {
		args = append(args, "-test.short")
	}
	if only != "" {
		args = append(args, "-test.run="+only)
	}
	run := exec.CommandContext(ctx, bin, args...)
	run.Dir = filepath.Join(p.base, "src", dir)
	run.Env = append(p.env, "PWD="+run.Dir)
	run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, Groups: p.groups}}
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
	run.WaitDelay = 15 * time.Second
	return p.convert(ctx, pkg, run, r)
}

// convert runs a test program with test2json, which stays root's, behind it.
func (p *secondPass) convert(ctx context.Context, pkg string, run *exec.Cmd, to *report) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	run.Stdout, run.Stderr = w, w
	err = run.Start()
	w.Close()
	if err != nil {
		return err
	}
	events := exec.CommandContext(ctx, "go", "tool", "test2json", "-t", "-p", pkg)
	events.Stdin = r
	converted := stream(events, to, p.stderr)
	if err := run.Wait(); err != nil && !to.hasFailed(pkg) {
		// It ended early or by its own exit, and test2json saw nothing wrong.
		to.line(fmt.Appendf(nil, `{"Action":"output","Package":%q,"Output":%q}`, pkg, err.Error()+"\n"))
		to.line(fmt.Appendf(nil, `{"Action":"fail","Package":%q}`, pkg))
	}
	return converted
}

// copySources copies the regular files of the module, readable for all, but for
// what at the top starts with a dot or is built. Links are left out.
func copySources(to string) error {
	return filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // gone since it was listed
			}
			return err
		}
		top := path != "." && filepath.Dir(path) == "."
		if top && (strings.HasPrefix(path, ".") || path == "bin") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		target := filepath.Join(to, path)
		if d.IsDir() {
			return os.Mkdir(target, 0o755)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, body, 0o644|info.Mode().Perm()&0o111)
	})
}

// environment is env with values replaced or added; an empty value removes.
func environment(env []string, set ...string) []string {
	for _, kv := range set {
		name, value, _ := strings.Cut(kv, "=")
		kept := make([]string, 0, len(env)+1)
		for _, e := range env {
			if !strings.HasPrefix(e, name+"=") {
				kept = append(kept, e)
			}
		}
		if value != "" {
			kept = append(kept, kv)
		}
		env = kept
	}
	return env
}
