//go:build unix

package container

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

// userInput is all that decides as whom commands run.
type userInput struct {
	// UID and GID are the effective ids of this process.
	UID, GID int
	// RootUID and RootGID own the root directory.
	RootUID, RootGID uint32
	// Flag is what the caller asked for: "", "uid" or "uid:gid".
	Flag string
	// Rootless: the engine runs in a user namespace in which its own user is
	// 0. Remapped: the engine maps every container's ids to other ones of
	// the host (userns-remap).
	Rootless, Remapped bool
}

// commandUser is as whom commands run.
type commandUser struct {
	UID, GID uint32
	// Warning says what the choice costs; may be empty.
	Warning string
}

// String is the user as the engine's API takes it. Both parts are always there:
// with the group named, the engine adds none from the image's group file.
func (u commandUser) String() string { return fmt.Sprintf("%d:%d", u.UID, u.GID) }

// chooseUser decides as whom commands run, so that what they make belongs to the
// caller: the caller's own ids; for root the owner of the root directory. It does
// no I/O.
func chooseUser(in userInput) (commandUser, error) {
	const op = "user"
	if in.Remapped {
		// The files of the root belong to nobody in such a container, and
		// turning the mapping off (UsernsMode host) would undo what the
		// engine's administrator chose.
		return commandUser{}, workspace.Errorf(workspace.ErrUnsupported, op, "", "the engine runs with userns-remap: in its containers the files of the root belong to nobody and cannot be written; use an engine without it, or a rootless one")
	}
	if in.Flag != "" {
		return parseUser(in.Flag)
	}
	if in.Rootless {
		// The user namespace maps the engine's user, who is the caller, to 0.
		return commandUser{}, nil
	}
	if in.UID != 0 {
		return commandUser{UID: uint32(in.UID), GID: uint32(in.GID)}, nil
	}
	u := commandUser{UID: in.RootUID, GID: in.RootGID}
	if u.UID == 0 {
		u.Warning = "commands run as root (without capabilities): the root directory belongs to root; give it to another user, or use --user UID:GID"
	}
	return u, nil
}

// parseUser reads "uid" or "uid:gid"; a uid alone stands for the group of the
// same number.
func parseUser(s string) (commandUser, error) {
	uid, gid, both := strings.Cut(s, ":")
	if !both {
		gid = uid
	}
	u, err := parseID(s, uid)
	if err != nil {
		return commandUser{}, err
	}
	g, err := parseID(s, gid)
	if err != nil {
		return commandUser{}, err
	}
	c := commandUser{UID: u, GID: g}
	if u == 0 {
		c.Warning = "commands run as root (without capabilities), as --user asks"
	}
	return c, nil
}

// maxID is the largest id a process can have: 2^32-1 means "no change" to
// setresuid(2).
const maxID = 1<<32 - 2

// parseID reads one part of the user whole.
func parseID(whole, part string) (uint32, error) {
	const op = "user"
	n, err := strconv.ParseUint(part, 10, 32)
	switch {
	case err == nil && n <= maxID:
		return uint32(n), nil
	case part == "" || strings.Trim(part, "0123456789") == "":
		return 0, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "the user %s is not UID or UID:GID, two numbers up to %d", workspace.Printable(whole), uint32(maxID))
	}
	// A name would be looked up in the image, which may call anybody anything.
	return 0, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "the user %s has a name in it; give numbers, UID:GID, as `id -u NAME` and `id -g NAME` print them", workspace.Printable(whole))
}
