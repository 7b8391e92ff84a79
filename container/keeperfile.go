//go:build unix

package container

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/workspace"
)

// KeeperTarget is where a keeper is to run.
type KeeperTarget struct {
	// Arch is the engine's machine as uname(1) spells it, or as Go does.
	Arch string
	// HostLibraries: the container sees this machine's own libraries, so a
	// program that needs them runs too.
	HostLibraries bool
}

// FindKeeper finds the keeper's binary for an executable that calls keeper.Init
// first in main: the wskeeper beside it, else the executable itself. Without one
// that runs at the target, path is "" and reason says why and what to do.
func FindKeeper(exe string, t KeeperTarget) (path, reason string) {
	beside := filepath.Join(filepath.Dir(exe), keeper.Name)
	if t.unfit(beside) == "" {
		return beside, ""
	}
	if reason := t.unfit(exe); reason != "" {
		return "", "no keeper: " + reason
	}
	return exe, ""
}

// unfit tells why the program cannot run at the target; "" when it can.
func (t KeeperTarget) unfit(program string) string {
	shown := workspace.Printable(program)
	f, err := elf.Open(program)
	if err != nil {
		return shown + " is no Linux program (" + err.Error() + "); put a " + keeper.Name + " for Linux beside it"
	}
	defer f.Close()
	if want, known := machines[t.Arch]; !known || f.Machine != want {
		return fmt.Sprintf("%s is for %v and the engine's machine is %s; put a %s for it beside the executable", shown, f.Machine, t.Arch, keeper.Name)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && !t.HostLibraries {
			return shown + " needs shared libraries, which images do not have; build it with CGO_ENABLED=0, or put a static " + keeper.Name + " beside it"
		}
	}
	return ""
}

// machines are the architectures that engines report (uname(1)) and Go's names
// of them.
var machines = map[string]elf.Machine{
	"x86_64": elf.EM_X86_64, "amd64": elf.EM_X86_64,
	"aarch64": elf.EM_AARCH64, "arm64": elf.EM_AARCH64,
	"i686": elf.EM_386, "386": elf.EM_386,
	"armv7l": elf.EM_ARM, "arm": elf.EM_ARM,
	"riscv64": elf.EM_RISCV, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390,
	"loongarch64": elf.EM_LOONGARCH, "loong64": elf.EM_LOONGARCH,
}

// keeperAge is for how long a staged keeper is kept after its last use.
const keeperAge = 7 * 24 * time.Hour

// stageKeeper returns a copy of the executable that can be mounted into a
// container: below the cache directory, of mode 0111. What nobody may read is not
// dumpable when it runs, so that commands of the same user cannot open its memory,
// environment or descriptors (proc(5), ptrace(2)).
//
// The copy is named by its content; which content an executable has is recorded
// by its identity and times, so that the next call reads nothing of it. Processes
// may call it at the same time.
func stageKeeper(ctx context.Context, cacheDir, exe string) (string, error) {
	cache, err := openCache(cacheDir)
	if err != nil {
		return "", err
	}
	defer cache.Close()
	staged, err := stage(ctx, cache, exe)
	if err != nil {
		return "", cacheError(workspace.ErrIO, exe, "the keeper's copy: %w", err)
	}
	real, err := filepath.EvalSymlinks(filepath.Join(cacheDir, staged))
	if err != nil {
		return "", cacheError(workspace.ErrIO, exe, "the keeper's copy: %w", err)
	}
	return real, nil
}

// stage is stageKeeper below the open cache directory.
func stage(ctx context.Context, cache *os.Root, exe string) (string, error) {
	fd, err := unix.Open(exe, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: exe, Err: err}
	}
	src := os.NewFile(uintptr(fd), exe)
	defer src.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", errors.New(workspace.Printable(exe) + " is no regular file")
	}
	// The time of change is in it too: nobody can set that one.
	identity := sha256.Sum256(fmt.Appendf(nil, "%d %d %d %v %v", st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim))
	known := path.Join("keeper", "known-"+hex.EncodeToString(identity[:12]))
	if sum, err := cache.ReadFile(known); err == nil {
		name := path.Join("keeper", string(sum), keeper.Name)
		if len(sum) == 2*sha256.Size && isStaged(cache, name, st.Size) {
			now := time.Now()
			return name, cache.Chtimes(name, now, now)
		}
	}
	if err := cache.MkdirAll("keeper", 0o711); err != nil {
		return "", err
	}
	pruneKeepers(cache)
	return copyKeeper(ctx, cache, src, known, st.Size)
}

// isStaged tells whether the copy is there and is as it was made. Its content is
// under a name that only this user can write.
func isStaged(cache *os.Root, name string, size int64) bool {
	info, err := cache.Lstat(name)
	return err == nil && info.Mode() == 0o111 && info.Size() == size
}

// copyKeeper copies under a name of its own and renames, so that whoever mounts
// the copy gets a whole one.
func copyKeeper(ctx context.Context, cache *os.Root, src io.Reader, known string, size int64) (string, error) {
	temp := path.Join("keeper", "new-"+randomName())
	defer func() { _ = cache.Remove(temp) }()
	dst, err := cache.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(dst, sum), io.LimitReader(src, size+1))
	if err == nil && n != size {
		err = errors.New("the executable changed while it was copied; try again")
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = errors.Join(dst.Chmod(0o111), dst.Sync())
	}
	if err := errors.Join(err, dst.Close()); err != nil {
		return "", err
	}
	content := hex.EncodeToString(sum.Sum(nil))
	dir := path.Join("keeper", content)
	if err := cache.MkdirAll(dir, 0o711); err != nil {
		return "", err
	}
	name := path.Join(dir, keeper.Name)
	if !isStaged(cache, name, size) {
		if err := cache.Rename(temp, name); err != nil {
			return "", err
		}
	}
	record := path.Join("keeper", "new-"+randomName())
	if err := cache.WriteFile(record, []byte(content), 0o600); err != nil {
		return "", err
	}
	return name, cache.Rename(record, known)
}

// pruneKeepers removes what was not used for long: copies, records of executables
// that are no more, and halves that a crash left. It fails in silence: the next
// one tries again.
func pruneKeepers(cache *os.Root) {
	entries, err := fs.ReadDir(cache.FS(), "keeper")
	if err != nil {
		return
	}
	for _, e := range entries {
		name := path.Join("keeper", e.Name())
		used := name
		if e.IsDir() {
			used = path.Join(name, keeper.Name)
		}
		info, err := cache.Lstat(used)
		if err != nil || time.Since(info.ModTime()) < keeperAge {
			continue
		}
		if e.IsDir() || strings.HasPrefix(e.Name(), "known-") || strings.HasPrefix(e.Name(), "new-") {
			_ = cache.Remove(used)
			_ = cache.Remove(name)
		}
	}
}
