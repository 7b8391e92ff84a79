//go:build unix

package container

import (
	"slices"
	"strconv"
	"strings"
)

// defaultPath is the PATH of an image that has none, as the engine has it.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// isTrap tells whether a variable of an image would act on every program or on
// the wrapper's shell: what the dynamic linker loads (ld.so(8)), what a shell
// reads first or how it traces and splits (bash(1), POSIX sh); or on the keeper,
// a Go program whose runtime would print into a command's stderr, or collect no
// garbage (pkg.go.dev/runtime, "Environment Variables").
func isTrap(name string) bool {
	switch name {
	case "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "BASH_XTRACEFD", "PS4", "IFS", "CDPATH", "GLOBIGNORE", "PROMPT_COMMAND", "GCONV_PATH", "LOCPATH", "NLSPATH", "GLIBC_TUNABLES",
		"GODEBUG", "GOTRACEBACK", "GOGC", "GOMEMLIMIT":
		return true
	}
	return strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "BASH_FUNC_")
}

// cleanEnv splits an image's environment into what commands get, with a PATH, and
// the names that they must not have. Entries without a name or with a NUL go too.
func cleanEnv(env []string) (kept, unset []string) {
	hasPath := false
	for _, e := range env {
		name, value, ok := strings.Cut(e, "=")
		switch {
		case !ok || name == "" || strings.ContainsRune(e, 0):
		case isTrap(name):
			unset = append(unset, name)
		case name == "PATH" && value == "":
		default:
			hasPath = hasPath || name == "PATH"
			kept = append(kept, e)
		}
	}
	if !hasPath {
		kept = append(kept, "PATH="+defaultPath)
	}
	slices.Sort(unset)
	return kept, slices.Compact(unset)
}

// envRequest is all that the environment of a command begins with.
type envRequest struct {
	Image imageInfo
	User  commandUser
	// UserName is the name of the user inside; "" where no passwd file says.
	UserName string
	// Offline: the container has no network.
	Offline bool
	// TmpDir is TMPDIR; "" is guestTmp.
	TmpDir string
}

// commandEnv is the environment under the workspace's and the command's own
// entries, sorted: the image's, over it HOME and TMPDIR, and what programs need
// that find no passwd entry or no network. What the image says of LANG, of a
// proxy for Go modules and the like holds.
func commandEnv(r envRequest) []string {
	vars := map[string]string{"LANG": "C.UTF-8"}
	if r.User.UID == 0 {
		// Root without capabilities cannot give files away, which GNU tar
		// otherwise tries as root.
		vars["TAR_OPTIONS"] = "--no-same-owner"
	}
	if r.Image.Toolchain && r.Offline {
		// A module that is missing is told at once, not after a time-out.
		vars["GOPROXY"] = "off"
	}
	for _, e := range r.Image.Env {
		name, value, _ := strings.Cut(e, "=")
		vars[name] = value
	}
	name := r.UserName
	if name == "" {
		// getpass.getuser and the like take it from here where the image's
		// passwd file does not know the number.
		name = "uid" + strconv.FormatUint(uint64(r.User.UID), 10)
	}
	vars["HOME"], vars["USER"], vars["LOGNAME"] = guestHome, name, name
	vars["TMPDIR"] = r.TmpDir
	if r.TmpDir == "" {
		vars["TMPDIR"] = guestTmp
	}
	env := make([]string, 0, len(vars))
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}
