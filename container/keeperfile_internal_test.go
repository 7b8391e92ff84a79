//go:build unix

package container

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/internal/enginetest"
)

// program returns a copy of a program under another name.
func program(t *testing.T, from, to string) string {
	t.Helper()
	body, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, body, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

// elfHeader is the smallest ELF file for a machine that debug/elf opens.
func elfHeader(m elf.Machine) []byte {
	b := make([]byte, 64)
	copy(b, elf.ELFMAG)
	b[4], b[5], b[6] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	b[16], b[18], b[20], b[52], b[54] = 2, byte(m), 1, 64, 56
	b[19] = byte(m >> 8)
	return b
}

func TestFindKeeper(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("programs of other systems are no keepers")
	}
	static := enginetest.BusyBoxPath(t)
	dynamic, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	here := KeeperTarget{Arch: runtime.GOARCH}
	for _, c := range []struct {
		name        string
		exe, beside string
		target      KeeperTarget
		want        string // base name; "" = none
		says        string
	}{
		{name: "static", exe: static, target: here, want: "wsctl"},
		{name: "dynamic", exe: dynamic, target: here, says: "CGO_ENABLED=0"},
		{name: "dynamic with the host's libraries", exe: dynamic, target: KeeperTarget{Arch: here.Arch, HostLibraries: true}, want: "wsctl"},
		{name: "beside a dynamic one", exe: dynamic, beside: static, target: here, want: "wskeeper"},
		{name: "beside a static one", exe: static, beside: static, target: here, want: "wskeeper"},
		{name: "beside, but dynamic", exe: static, beside: dynamic, target: here, want: "wsctl"},
		{name: "other machine", exe: static, target: KeeperTarget{Arch: "s390x"}, says: "s390x"},
		{name: "unknown machine", exe: static, target: KeeperTarget{Arch: "pdp11"}, says: "pdp11"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			exe := program(t, c.exe, filepath.Join(dir, "wsctl"))
			if c.beside != "" {
				program(t, c.beside, filepath.Join(dir, "wskeeper"))
			}
			path, reason := FindKeeper(exe, c.target)
			if (path == "") != (reason != "") || path != "" && filepath.Base(path) != c.want || c.want == "" && path != "" || !strings.Contains(reason, c.says) {
				t.Errorf("got %q, %q", path, reason)
			}
		})
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if path, reason := FindKeeper(script, here); path != "" || !strings.Contains(reason, "no Linux program") {
		t.Errorf("script: %q, %q", path, reason)
	}
	arm := filepath.Join(t.TempDir(), "arm")
	if err := os.WriteFile(arm, elfHeader(elf.EM_AARCH64), 0o755); err != nil {
		t.Fatal(err)
	}
	if path, reason := FindKeeper(arm, KeeperTarget{Arch: "aarch64"}); path != arm {
		t.Errorf("for another machine that is the engine's: %q, %q", path, reason)
	}
}

func TestStagedKeeper(t *testing.T) {
	cache := filepath.Join(plainDir(t), "cache")
	exe := filepath.Join(t.TempDir(), "exe")
	body := bytes.Repeat([]byte("keeper"), 1000)
	if err := os.WriteFile(exe, body, 0o755); err != nil {
		t.Fatal(err)
	}
	stageIt := func() (string, unix.Stat_t) {
		t.Helper()
		name, err := stageKeeper(t.Context(), cache, exe)
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			t.Fatal(err)
		}
		return name, st
	}
	first, st := stageIt()
	if filepath.Base(first) != "wskeeper" || st.Mode != unix.S_IFREG|0o111 || int(st.Size) != len(body) {
		t.Errorf("%s has mode %o and %d bytes", first, st.Mode, st.Size)
	}
	if again, now := stageIt(); again != first || now.Ino != st.Ino {
		t.Errorf("again: %s, inode %d; first %s, %d", again, now.Ino, first, st.Ino)
	}
	// A rebuilt executable of the same size is another keeper.
	body[0] = 'K'
	if err := os.WriteFile(exe, body, 0o755); err != nil {
		t.Fatal(err)
	}
	second, _ := stageIt()
	if second == first {
		t.Error("a changed executable got the old copy")
	}
	if _, err := os.Lstat(first); err != nil {
		t.Errorf("the old copy may still be mounted: %v", err)
	}

	// The same bytes under another name share the copy.
	other := program(t, exe, filepath.Join(t.TempDir(), "other"))
	if shared, err := stageKeeper(t.Context(), cache, other); err != nil || shared != second {
		t.Errorf("equal bytes: %s, %v", shared, err)
	}

	// A copy that somebody changed is made again.
	if err := os.Chmod(second, 0o755); err != nil {
		t.Fatal(err)
	}
	if name, st := stageIt(); name != second || st.Mode != unix.S_IFREG|0o111 {
		t.Errorf("%s has mode %o", name, st.Mode)
	}
}

func TestStagedKeepersThatNobodyUsesGo(t *testing.T) {
	cache := filepath.Join(plainDir(t), "cache")
	dir := t.TempDir()
	var staged []string
	for _, name := range []string{"old", "used", "new"} {
		exe := filepath.Join(dir, name)
		if err := os.WriteFile(exe, []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
		path, err := stageKeeper(t.Context(), cache, exe)
		if err != nil {
			t.Fatal(err)
		}
		staged = append(staged, path)
		if name == "new" {
			break
		}
		then := time.Now().Add(-keeperAge - time.Hour)
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
		if name == "used" { // using it makes it young
			if _, err := stageKeeper(t.Context(), cache, exe); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, there := range []bool{false, true, true} {
		if _, err := os.Lstat(staged[i]); (err == nil) != there {
			t.Errorf("%s: %v, want there: %v", staged[i], err, there)
		}
	}
}

func TestKeeperStagedByManyAtOnce(t *testing.T) {
	cache := filepath.Join(plainDir(t), "cache")
	exe := filepath.Join(t.TempDir(), "exe")
	body := bytes.Repeat([]byte("keeper"), 200_000)
	if err := os.WriteFile(exe, body, 0o755); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			name, err := stageKeeper(t.Context(), cache, exe)
			if err != nil {
				t.Error(err)
				return
			}
			if info, err := os.Lstat(name); err != nil || info.Size() != int64(len(body)) || info.Mode() != 0o111 {
				t.Errorf("%v, %v", info, err)
			}
		}()
	}
	all.Wait()
	left, err := filepath.Glob(filepath.Join(cache, "keeper", "new-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

func TestKeeperThatCannotBeStaged(t *testing.T) {
	cache := filepath.Join(plainDir(t), "cache")
	for _, exe := range []string{filepath.Join(cache, "missing"), cache + "/..", "/dev/null"} {
		if name, err := stageKeeper(t.Context(), cache, exe); err == nil {
			t.Errorf("%s was staged as %s", exe, name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := stageKeeper(ctx, cache, os.Args[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}
