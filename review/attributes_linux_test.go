package review_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/review"
)

// accessList lets another user write: the form of posix_acl_xattr.h.
func accessList() []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 6, ^uint32(0)}, {0x02, 6, 12345}, {0x04, 4, ^uint32(0)}, {0x10, 6, ^uint32(0)}, {0x20, 4, ^uint32(0)}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// Access lists and file capabilities are named; other attributes are not.
func TestAttributes(t *testing.T) {
	w, dir := tree(t, map[string]string{"acl": "", "caps": "", "noted": "", "plain": "", "d/": "", "link": "-> acl"})
	root, err := host.OpenRoot(dir, host.RootOptions{LeftoverAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	want := map[string]string{"acl": "access list gives rights", "d": "what is made in it"}
	set := func(name, attribute string, value []byte) {
		t.Helper()
		err := unix.Setxattr(filepath.Join(dir, name), attribute, value, 0)
		if errors.Is(err, unix.ENOTSUP) {
			t.Skipf("the file system of the tests has no %s", attribute)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	set("acl", "system.posix_acl_access", accessList())
	set("d", "system.posix_acl_default", accessList())
	set("noted", "user.note", []byte("x"))
	if os.Geteuid() == 0 {
		// CAP_NET_RAW, effective: struct vfs_cap_data of capability.h.
		caps := binary.LittleEndian.AppendUint32(nil, 0x02000001)
		caps = binary.LittleEndian.AppendUint32(caps, 1<<13)
		set("caps", "security.capability", append(caps, make([]byte, 12)...))
		want["caps"] = "file capabilities"
	}
	got := findings(t, w, review.Options{UID: -1, Attributes: root.Attributes})
	for name, says := range want {
		if why := strings.Join(got[name], "\n"); !strings.Contains(why, says) {
			t.Errorf("%s: %q, want it to say %q", name, why, says)
		}
	}
	for _, name := range []string{"noted", "plain", "link"} {
		if got[name] != nil {
			t.Errorf("%s: %q", name, got[name])
		}
	}
}
