package enginetest

import (
	"context"
	"debug/elf"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// BusyBox returns the reference of an image made from scratch: a static BusyBox
// at /bin with a link for every applet it has, a passwd and group file that name
// root and nobody, and a /tmp that everybody may write. Its configuration is
// empty: no ENV (not even PATH), no CMD, no USER.
func BusyBox(t testing.TB) string {
	t.Helper()
	return Import(t, Image{Name: "busybox", Files: busyBoxFiles(t)})
}

// Changed returns the reference of the BusyBox image with Dockerfile
// instructions applied to its configuration, for images that set traps:
// `ENV LD_PRELOAD=/evil.so`, `VOLUME /workspace/data`, `HEALTHCHECK CMD id`,
// `LABEL k=v`, `USER 0`, `ENTRYPOINT ["/bin/false"]`.
func Changed(t testing.TB, changes ...string) string {
	t.Helper()
	return Import(t, Image{Name: "changed", Files: busyBoxFiles(t), Changes: changes})
}

// WithFiles returns the reference of the BusyBox image with more files, which
// replace those of the same name: another /etc/group, a shell that lies.
func WithFiles(t testing.TB, files ...File) string {
	t.Helper()
	kept := slices.DeleteFunc(busyBoxFiles(t), func(old File) bool {
		return slices.ContainsFunc(files, func(f File) bool { return f.Name == old.Name })
	})
	return Import(t, Image{Name: "files", Files: append(kept, files...)})
}

// BusyBoxPath returns the path of a static BusyBox on this machine: the one on
// PATH, or Debian's package, fetched once into the cache directory. Where there
// is none the test ends as [Missing] says.
func BusyBoxPath(t testing.TB) string {
	t.Helper()
	if p := installedBusyBox(); p != "" {
		return p
	}
	dir := cacheDir(t)
	unlock, err := lock(dir, "busybox")
	if err != nil {
		t.Fatalf("BusyBox: %v", err)
	}
	defer unlock()
	p := filepath.Join(dir, "busybox-static", "bin", "busybox")
	if isStatic(p) {
		return p
	}
	if said, err := fetchBusyBox(dir); err != nil {
		Missing(t, "no static busybox on PATH, and its package cannot be fetched (`apt-get install busybox-static`): "+err.Error()+" "+said)
	}
	if !isStatic(p) {
		Missing(t, "the package busybox-static has no static "+p)
	}
	return p
}

// fetchBusyBox unpacks Debian's package below dir without installing it.
func fetchBusyBox(dir string) (said string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, line := range [][]string{
		{"sh", "-c", "rm -f busybox-static_*.deb; apt-get download busybox-static"},
		{"sh", "-c", `dpkg -x busybox-static_*.deb busybox-static`},
	} {
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return strings.TrimSpace(string(out)), err
		}
	}
	return "", nil
}

// installedBusyBox is the first static BusyBox where distributions put one.
func installedBusyBox() string {
	candidates := []string{"/bin/busybox", "/bin/busybox.static", "/usr/bin/busybox", "/usr/lib/initcpio/busybox"}
	if p, err := exec.LookPath("busybox"); err == nil {
		candidates = append([]string{p}, candidates...)
	}
	for _, p := range candidates {
		if isStatic(p) {
			return p
		}
	}
	return ""
}

// isStatic tells whether path is an ELF program that asks for no interpreter.
func isStatic(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}

// busyBoxFiles are the files of [BusyBox].
func busyBoxFiles(t testing.TB) []File {
	t.Helper()
	bin := BusyBoxPath(t)
	out, err := exec.CommandContext(t.Context(), bin, "--list").Output()
	if err != nil {
		t.Fatalf("%s --list: %v", bin, err)
	}
	files := []File{
		{Name: "tmp/", Mode: 0o1777},
		{Name: "root/", Mode: 0o700},
		{Name: "etc/passwd", Mode: 0o644, Body: []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")},
		{Name: "etc/group", Mode: 0o644, Body: []byte("root:x:0:\nnogroup:x:65534:\n")},
		FromHost(t, "bin/busybox", bin, 0o755),
		{Name: "sbin", Link: "bin"},
		{Name: "usr/bin", Link: "../bin"},
	}
	for _, name := range strings.Fields(string(out)) {
		if name != "busybox" && filepath.Base(name) == name {
			files = append(files, File{Name: "bin/" + name, Link: "busybox"})
		}
	}
	return files
}
