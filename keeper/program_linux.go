package keeper

import (
	"strings"

	"golang.org/x/sys/unix"
)

// plainProgram finds the file of a request's inner program where every shell would
// find that very one: by its path, or as the first executable regular file in PATH.
// Everything else is the shell's affair, above all what it says when there is none.
func plainProgram(r *Request) (path string, ok bool) {
	if r.Inner <= 0 || r.Inner >= len(r.Args) {
		return "", false
	}
	name := r.Args[r.Inner]
	if strings.IndexByte(name, '/') >= 0 {
		return name, executable(name)
	}
	for _, entry := range r.Env {
		list, isPath := strings.CutPrefix(entry, "PATH=")
		if !isPath {
			continue
		}
		// dash has options behind %, and bash knows ~.
		if strings.ContainsAny(list, "%~") {
			return "", false
		}
		for dir := range strings.SplitSeq(list, ":") {
			if dir == "" {
				dir = "." // POSIX, 8.3 Other Environment Variables
			}
			if path := dir + "/" + name; executable(path) {
				return path, true
			}
		}
		break
	}
	// A shell is found wherever it is.
	return r.Path, name == "sh"
}

func executable(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && unix.Access(path, unix.X_OK) == nil
}

// withDir adds PWD, the directory that this process is in, where the environment
// has none.
func withDir(env []string) []string {
	for _, entry := range env {
		if strings.HasPrefix(entry, "PWD=") {
			return env
		}
	}
	dir, err := unix.Getwd()
	if err != nil || dir == "" || dir[0] != '/' { // "(unreachable)", getcwd(3)
		return env
	}
	return append(env[:len(env):len(env)], "PWD="+dir)
}
