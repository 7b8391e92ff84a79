//go:build unix

package container

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"

	"github.com/wsctl/wsctl/workspace"
)

// toolchainRepository is the name of the image of the host's own toolchain; its
// tag is the hash of its content.
const toolchainRepository = "wsctl-toolchain"

// toolchainRequest says whose toolchain is wanted, and for what engine.
type toolchainRequest struct {
	User commandUser
	// HostPath is the caller's PATH.
	HostPath string
	// Dirs are more directories of programs, mounted at the same path.
	Dirs     []string
	CacheDir string
	Root     rootFacts
	Policy   placePolicy
	// LocalEngine: the engine runs on this machine, under this kernel.
	LocalEngine bool
}

// toolchain is the host's own toolchain as a container sees it: an image that has
// no file but a few of /etc, and read-only mounts of this machine's directories.
type toolchain struct {
	Image  imageInfo
	Mounts []mount.Mount
	// Sources are what was found at the caller's own directories, by target.
	Sources map[string]fileID
	// UserName is the command's user in the image's passwd file.
	UserName string
}

// useToolchain makes the host's toolchain available, and imports the image if the
// engine does not have it. Nothing on the host is changed but a lock file in the
// cache directory.
//
// Errors: UNAVAILABLE where the host's programs cannot be used that way; it names
// --toolchain and --image. NOT_FOUND and DENIED for one of Dirs; ABORTED.
func useToolchain(ctx context.Context, api imageAPI, r toolchainRequest) (toolchain, error) {
	if !r.LocalEngine {
		return toolchain{}, toolchainError("", "the engine is not on this machine, or runs in a virtual one, so its containers cannot have this machine's programs; name an image with --image")
	}
	h, err := readHost(r)
	if err != nil {
		return toolchain{}, err
	}
	dirs, err := r.directories(ctx, h)
	if err != nil {
		return toolchain{}, err
	}
	if err := needShell(dirs); err != nil {
		return toolchain{}, err
	}
	t := toolchain{UserName: h.user.name, Sources: map[string]fileID{}}
	for _, d := range dirs {
		if d.id != (fileID{}) {
			t.Sources[d.target] = d.id
		}
	}
	if t.Mounts, err = toolchainMounts(dirs); err != nil {
		return toolchain{}, err
	}
	layer, err := h.layer()
	if err != nil {
		return toolchain{}, toolchainError("", "the image of the toolchain: %w", err)
	}
	if t.Image, err = importToolchain(ctx, api, r.CacheDir, layer); err != nil {
		return toolchain{}, err
	}
	t.Image.Toolchain = true
	t.Image.Env = []string{"PATH=" + visiblePath(r.HostPath, dirs, h)}
	return t, nil
}

// toolchainError is an error of the host's toolchain.
func toolchainError(subject, format string, args ...any) error {
	return workspace.Errorf(workspace.ErrUnavailable, "toolchain", subject, format, args...)
}

// hostDirectory is a directory, or a file of /etc, of this machine and where it
// is inside.
type hostDirectory struct {
	source, target string
	id             fileID // of the caller's own; zero for the system's
}

// toolchainEtc is what of /etc is mounted where the host has it: what programs
// need, and nothing that tells of persons or holds keys. The pki and
// crypto-policies rows are where the Fedora family has what ssl has elsewhere.
var toolchainEtc = []string{
	"alternatives", "crypto-policies", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types",
	"pki/ca-trust/extracted", "pki/tls/certs", "protocols", "services", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf",
}

// directories lists what is mounted: /usr, those of /bin, /lib and so on that are
// directories of their own, entries of /etc, and the caller's.
func (r toolchainRequest) directories(ctx context.Context, h hostFacts) ([]hostDirectory, error) {
	dirs := []hostDirectory{{source: "/usr", target: "/usr"}}
	for _, d := range h.real {
		dirs = append(dirs, hostDirectory{source: d, target: d})
	}
	for _, name := range toolchainEtc {
		real, err := filepath.EvalSymlinks("/etc/" + name)
		if err == nil {
			dirs = append(dirs, hostDirectory{source: real, target: "/etc/" + name})
		}
	}
	for _, dir := range r.Dirs {
		m := Mount{Source: filepath.Clean(dir), Target: filepath.Clean(dir)}
		if !filepath.IsAbs(m.Source) || !utf8.ValidString(m.Source) {
			return nil, workspace.Errorf(workspace.ErrInvalidArgument, "toolchain", dir, "a toolchain directory must be an absolute path in UTF-8")
		}
		taken := make([]string, 0, len(dirs)+2)
		for _, d := range dirs {
			taken = append(taken, d.target)
		}
		if slices.Contains(taken, m.Target) || below(m.Target, "/usr") {
			continue // there already
		}
		if err := m.checkTarget(append(taken, guestHome, guestKeeper, guestDoor)); err != nil {
			return nil, err
		}
		checked, found, err := m.checkSource(ctx, r.Root, r.Policy)
		if err != nil {
			return nil, err
		}
		if !found.dir {
			return nil, workspace.Errorf(workspace.ErrNotDirectory, "toolchain", dir, "a toolchain is a directory; for a file use --mount")
		}
		dirs = append(dirs, hostDirectory{source: checked.Source, target: checked.Target, id: found.id})
	}
	return dirs, nil
}

// needShell refuses a host whose shell is not in what is mounted.
func needShell(dirs []hostDirectory) error {
	real, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		return toolchainError("/bin/sh", "this machine has no shell there; name an image with --image")
	}
	for _, d := range dirs {
		if below(real, d.source) {
			return nil
		}
	}
	return toolchainError(real, "this machine keeps its programs outside /usr; add their directory (as %s) with --toolchain, or name an image with --image", workspace.Printable("/"+strings.Split(real, "/")[1]))
}

// toolchainMounts are the read-only mounts. What is mounted on the host below one
// of the directories is mounted by itself: a mount is not recursive, for what is
// below a read-only one would be writable.
func toolchainMounts(dirs []hostDirectory) ([]mount.Mount, error) {
	var mounts []mount.Mount
	for _, d := range dirs {
		mounts = append(mounts, bind(d.source, d.target, false))
		inner, err := mountsBelow(d.source)
		if err != nil {
			return nil, toolchainError(d.source, "what is mounted below it: %w", err)
		}
		for _, source := range inner {
			info, err := os.Lstat(source)
			if err != nil || !info.IsDir() || !utf8.ValidString(source) {
				continue // hidden under another mount by now, or no place for programs
			}
			mounts = append(mounts, bind(source, d.target+strings.TrimPrefix(source, d.source), false))
		}
	}
	return mounts, nil
}

// visiblePath is what of the host's PATH the container has, or the usual one when
// nothing of it is left.
func visiblePath(hostPath string, dirs []hostDirectory, h hostFacts) string {
	var path []string
	for _, p := range strings.Split(hostPath, ":") {
		p = filepath.Clean(p)
		if filepath.IsAbs(p) && !slices.Contains(path, p) && (h.hasLink(p) || slices.ContainsFunc(dirs, func(d hostDirectory) bool { return below(p, d.target) })) {
			path = append(path, p)
		}
	}
	if len(path) == 0 {
		return defaultPath
	}
	return strings.Join(path, ":")
}

// importToolchain makes sure that the engine has the image of that one layer. An
// image of the right tag and another content is not taken: the engine computes
// the digest of a layer itself.
func importToolchain(ctx context.Context, api imageAPI, cacheDir string, layer []byte) (imageInfo, error) {
	sum := sha256.Sum256(layer)
	content := hex.EncodeToString(sum[:])
	ref := toolchainRepository + ":" + content[:16]
	if info, err := findToolchain(ctx, api, ref, content); err == nil || !errdefs.IsNotFound(err) {
		return info, err
	}
	// Two imports of one content would leave an image without a tag.
	unlock, err := lockCache(ctx, cacheDir, "toolchain.lock")
	if err != nil {
		return imageInfo{}, err
	}
	defer unlock()
	if info, err := findToolchain(ctx, api, ref, content); err == nil || !errdefs.IsNotFound(err) {
		return info, err
	}
	body, err := api.ImageImport(ctx, image.ImportSource{Source: bytes.NewReader(layer), SourceName: "-"}, ref, image.ImportOptions{Message: "the frame of the host's own toolchain, made by wsctl"})
	if err != nil {
		return imageInfo{}, engineError(ctx, "toolchain", err)
	}
	said, err := io.ReadAll(io.LimitReader(body, 64<<10))
	if err := errors.Join(err, body.Close()); err != nil {
		return imageInfo{}, engineError(ctx, "toolchain", err)
	}
	info, err := findToolchain(ctx, api, ref, content)
	if errdefs.IsNotFound(err) {
		return imageInfo{}, toolchainError(ref, "the engine did not take the image; it said %s", workspace.Printable(strings.TrimSpace(string(said))))
	}
	return info, err
}

// findToolchain looks for the image; that the engine has none of that content is
// an error for errdefs.IsNotFound.
func findToolchain(ctx context.Context, api imageAPI, ref, content string) (imageInfo, error) {
	info, err := inspectImage(ctx, api, ref)
	if err == nil && !slices.Equal(info.layers, []string{"sha256:" + content}) {
		return imageInfo{}, errdefs.ErrNotFound
	}
	return info, err
}

// lockCache takes the lock of that name in the cache directory.
func lockCache(ctx context.Context, cacheDir, name string) (unlock func(), err error) {
	cache, err := openCache(cacheDir)
	if err != nil {
		return nil, err
	}
	defer cache.Close()
	f, err := cache.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, cacheError(workspace.ErrIO, cacheDir, "%w", err)
	}
	if err := lockWaiting(ctx, f); err != nil {
		_ = f.Close()
		if ctx.Err() != nil {
			return nil, cacheError(workspace.ErrAborted, cacheDir, "%w", ctx.Err())
		}
		return nil, cacheError(workspace.ErrIO, cacheDir, "the lock %s: %w", name, err)
	}
	return func() { _ = f.Close() }, nil
}

// hostFacts is what of this machine goes into the image.
type hostFacts struct {
	// links are the links of / that lead into /usr, by name without a slash.
	links map[string]string
	// real are those of the same kind that are directories of their own.
	real []string
	// sbin are the names in /usr/sbin, when /sbin is a link to it.
	sbin []string
	// etcDirs and etcFiles are mount points in /etc.
	etcDirs, etcFiles []string
	// osRelease: /usr/lib/os-release is there.
	osRelease bool
	user      guestUser
}

// hasLink tells whether the absolute path is one of the links, or /sbin.
func (h hostFacts) hasLink(path string) bool {
	name := strings.TrimPrefix(path, "/")
	_, ok := h.links[name]
	return ok || len(h.sbin) > 0 && name == "sbin"
}

// readHost looks at the root directory of this machine.
func readHost(r toolchainRequest) (hostFacts, error) {
	h := hostFacts{links: map[string]string{}, user: newGuestUser(r.User)}
	top, err := listDirectory("/")
	if err != nil {
		return h, toolchainError("/", "%w", err)
	}
	for _, e := range top {
		if name := e.Name(); name == "bin" || name == "sbin" || strings.HasPrefix(name, "lib") {
			h.addTop(name, e.Type())
		}
	}
	for _, name := range toolchainEtc {
		info, err := os.Stat("/etc/" + name)
		switch {
		case err != nil:
		case info.IsDir():
			h.etcDirs = append(h.etcDirs, name)
		default:
			h.etcFiles = append(h.etcFiles, name)
		}
	}
	_, err = os.Stat("/usr/lib/os-release")
	h.osRelease = err == nil
	return h, nil
}

// addTop takes one of /bin, /sbin, /lib… as the host has it.
func (h *hostFacts) addTop(name string, mode fs.FileMode) {
	switch {
	case mode.IsDir():
		h.real = append(h.real, "/"+name)
	case mode&fs.ModeSymlink == 0:
	case name == "sbin":
		// A directory in the image, since the engine's init is put there;
		// programs that spell /sbin/ldconfig find it all the same.
		if entries, err := listDirectory("/sbin/."); err == nil {
			for _, e := range entries {
				h.sbin = append(h.sbin, e.Name())
			}
		}
	default:
		if target, err := os.Readlink("/" + name); err == nil {
			h.links[name] = target
		}
	}
}

// listDirectory reads a directory, sorted.
func listDirectory(dir string) ([]fs.DirEntry, error) {
	d, _, err := openDirectory(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}
