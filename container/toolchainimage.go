//go:build unix

package container

import (
	"archive/tar"
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// guestUser is the command's user as the image's passwd and group files have it.
type guestUser struct {
	uid, gid    uint32
	name, group string
	shell       string
}

// plainName is a name that can stand in a passwd file and in a variable.
var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_.-]{0,31}$`)

// newGuestUser names the user as this machine does.
func newGuestUser(u commandUser) guestUser {
	g := guestUser{uid: u.UID, gid: u.GID, name: "user", group: "user", shell: "/bin/sh"}
	if known, err := user.LookupId(strconv.FormatUint(uint64(u.UID), 10)); err == nil && plainName.MatchString(known.Username) {
		g.name = known.Username
	}
	if known, err := user.LookupGroupId(strconv.FormatUint(uint64(u.GID), 10)); err == nil && plainName.MatchString(known.Name) {
		g.group = known.Name
	}
	if g.uid == 0 {
		g.name = "root"
	} else if g.name == "root" || g.name == "nobody" && g.uid != overflowID {
		g.name = "user"
	}
	if info, err := os.Stat("/bin/bash"); err == nil && info.Mode().IsRegular() {
		g.shell = "/bin/bash"
	}
	return g
}

// passwd is the image's passwd(5): the user, root and nobody.
func (g guestUser) passwd() string {
	lines := []string{fmt.Sprintf("%s:x:%d:%d::%s:%s", g.name, g.uid, g.gid, guestHome, g.shell)}
	if g.uid != 0 {
		lines = append(lines, "root:x:0:0:root:/root:/bin/sh")
	}
	if g.uid != overflowID {
		lines = append(lines, fmt.Sprintf("nobody:x:%d:%d:nobody:/nonexistent:/bin/false", overflowID, overflowID))
	}
	return strings.Join(lines, "\n") + "\n"
}

// groups is the image's group(5).
func (g guestUser) groups() string {
	lines := []string{fmt.Sprintf("%s:x:%d:", g.group, g.gid)}
	if g.gid != 0 {
		lines = append(lines, "root:x:0:")
	}
	if g.gid != overflowID {
		lines = append(lines, fmt.Sprintf("nogroup:x:%d:", overflowID))
	}
	return strings.Join(lines, "\n") + "\n"
}

// nsswitch has names looked up in files, and hosts in the name service too.
const nsswitch = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n"

// layer is the image as a tar archive. Equal facts make equal bytes: names are
// sorted, times zero, owners root.
func (h hostFacts) layer() ([]byte, error) {
	var buf bytes.Buffer
	w := layerWriter{tar: tar.NewWriter(&buf)}
	for _, d := range []string{"dev", "etc", "home", "proc", "root", "run", "sbin", "sys", "usr", "var", "workspace"} {
		w.dir(d, 0o755)
	}
	w.dir("tmp", 0o1777)
	w.dir("var/tmp", 0o1777)
	w.dir(guestHome[1:], 0o755)
	for _, d := range h.real {
		if d != "/sbin" {
			w.dir(d[1:], 0o755)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.links)) {
		w.link(name, h.links[name])
	}
	for _, name := range h.sbin {
		w.link("sbin/"+name, "../usr/sbin/"+name)
	}
	w.file("etc/passwd", h.user.passwd())
	w.file("etc/group", h.user.groups())
	w.file("etc/nsswitch.conf", nsswitch)
	if h.osRelease {
		w.link("etc/os-release", "../usr/lib/os-release")
	}
	made := map[string]bool{".": true}
	for _, name := range h.etcDirs {
		w.parents(made, name)
	}
	for _, name := range h.etcFiles {
		w.parents(made, path.Dir(name))
		w.file("etc/"+name, "")
	}
	w.file(guestKeeper[1:], "")
	if w.err == nil {
		w.err = w.tar.Close()
	}
	return buf.Bytes(), w.err
}

// layerWriter writes entries and remembers the first error.
type layerWriter struct {
	tar *tar.Writer
	err error
}

// parents writes the directory dir of /etc and those above it, each once.
func (w *layerWriter) parents(made map[string]bool, dir string) {
	if made[dir] {
		return
	}
	made[dir] = true
	w.parents(made, path.Dir(dir))
	w.dir("etc/"+dir, 0o755)
}

func (w *layerWriter) dir(name string, mode int64) {
	w.entry(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, "")
}

func (w *layerWriter) link(name, target string) {
	w.entry(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, "")
}

func (w *layerWriter) file(name, content string) {
	w.entry(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}, content)
}

func (w *layerWriter) entry(h *tar.Header, content string) {
	if w.err != nil {
		return
	}
	if w.err = w.tar.WriteHeader(h); w.err == nil {
		_, w.err = w.tar.Write([]byte(content))
	}
}
