package enginetest

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// HostShells returns the reference of the BusyBox image with the dash and bash
// of this machine and the libraries they load, and the paths in it of every
// shell: /bin/ash always, /bin/dash and /bin/bash where the machine has them.
// /bin/sh is BusyBox's.
func HostShells(t testing.TB) (ref string, shells []string) {
	t.Helper()
	files := busyBoxFiles(t)
	shells = []string{"/bin/ash"}
	seen := map[string]bool{}
	for _, name := range []string{"dash", "bash"} {
		host, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		for _, lib := range libraries(t, host) {
			if !seen[lib] {
				seen[lib] = true
				files = append(files, FromHost(t, strings.TrimPrefix(lib, "/"), lib, 0o755))
			}
		}
		files = append(files, FromHost(t, "bin/"+name, host, 0o755))
		shells = append(shells, "/bin/"+name)
	}
	return Import(t, Image{Name: "shells", Files: files}), shells
}

// libraryLine is a line of ldd(1) that names a file: the target of an arrow, or
// the dynamic loader alone.
var libraryLine = regexp.MustCompile(`(?m)^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$`)

// libraries are the paths of the shared objects that a program of this machine
// loads, the dynamic loader among them; none for a static program.
func libraries(t testing.TB, program string) []string {
	t.Helper()
	if isStatic(program) {
		return nil
	}
	out, err := exec.CommandContext(t.Context(), "ldd", program).Output()
	if err != nil {
		t.Fatalf("ldd %s: %v", program, err)
	}
	var libs []string
	for _, m := range libraryLine.FindAllStringSubmatch(string(out), -1) {
		libs = append(libs, m[1])
	}
	if len(libs) == 0 {
		t.Fatalf("ldd %s names no library:\n%s", program, out)
	}
	return libs
}
