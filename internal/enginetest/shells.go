package enginetest

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// HostShells returns the reference of the BusyBox image with the dash and bash
// of this machine and the libraries they load, and the paths in it of every
// shell: /bin/ash always, /bin/dash and /bin/bash where the machine has them.
// /bin/sh is BusyBox's.
func HostShells(t testing.TB) (ref string, shells []string) {
	t.Helper()
	files, shells := busyBoxFiles(t), []string{"/bin/ash"}
	for _, name := range []string{"dash", "bash"} {
		if more := hostShell(t, name, files); more != nil {
			files, shells = append(files, more...), append(shells, "/bin/"+name)
		}
	}
	return Import(t, Image{Name: "shells", Files: files}), shells
}

// ShellAs returns the reference of the BusyBox image with a shell of this machine,
// "dash" or "bash", as /bin/sh; empty where the machine has none.
func ShellAs(t testing.TB, name string) (ref string) {
	t.Helper()
	files := busyBoxFiles(t)
	shell := hostShell(t, name, files)
	if shell == nil {
		return ""
	}
	for i := range files {
		if files[i].Name == "bin/sh" {
			files[i] = File{Name: "bin/sh", Link: name}
		}
	}
	return Import(t, Image{Name: name, Files: append(files, shell...)})
}

// hostShell is a shell of this machine in /bin with the libraries that it loads and
// that are not among files; nil where the machine has none.
func hostShell(t testing.TB, name string, files []File) []File {
	t.Helper()
	host, err := exec.LookPath(name)
	if err != nil {
		return nil
	}
	var shell []File
	for _, lib := range libraries(t, host) {
		file := strings.TrimPrefix(lib, "/")
		if !slices.ContainsFunc(files, func(f File) bool { return f.Name == file }) {
			shell = append(shell, FromHost(t, file, lib, 0o755))
		}
	}
	return append(shell, FromHost(t, "bin/"+name, host, 0o755))
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
