//go:build linux

package container

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/moby/profiles/seccomp"
)

func profileFor(t *testing.T, gid uint32, mode SeccompMode) *seccomp.Seccomp {
	t.Helper()
	text, err := seccompProfile(gid, mode)
	if err != nil {
		t.Fatal(err)
	}
	var p seccomp.Seccomp
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

// A change of the profile, ours or upstream's, shows in review.
func TestSeccompGolden(t *testing.T) {
	golden(t, "seccomp.golden.json", profileFor(t, 1000, SeccompDefault))
	golden(t, "seccomp.group0.golden.json", profileFor(t, 0, SeccompDefault))
	golden(t, "seccomp.strict.golden.json", profileFor(t, 1000, SeccompStrict))
}

// allows tells whether the profile lets a container without capabilities make a
// call with these arguments, as the kernel will read it: any rule that matches
// and allows; no rule, or one that says errno, refuses.
func allows(p *seccomp.Seccomp, name string, args ...uint64) bool {
	for _, rule := range p.Syscalls {
		if rule.Includes != nil && (len(rule.Includes.Caps) > 0 ||
			len(rule.Includes.Arches) > 0 && !slices.Contains(rule.Includes.Arches, "amd64")) {
			continue
		}
		if rule.Excludes != nil && slices.Contains(rule.Excludes.Arches, "amd64") || !slices.Contains(rule.Names, name) {
			continue
		}
		matches := true
		for _, a := range rule.Args {
			v := uint64(0)
			if int(a.Index) < len(args) {
				v = args[a.Index]
			}
			switch a.Op {
			case "SCMP_CMP_EQ":
				matches = matches && v == a.Value
			case "SCMP_CMP_LT":
				matches = matches && v < a.Value
			case "SCMP_CMP_MASKED_EQ":
				matches = matches && v&a.Value == a.ValueTwo
			default:
				panic("an operator that this test does not know: " + a.Op)
			}
		}
		if matches {
			return rule.Action == "SCMP_ACT_ALLOW"
		}
	}
	return false
}

// Each refusal has a twin that passes.
func TestSeccompRefuses(t *testing.T) {
	const (
		creat, tmpfile, at = 0o101, 0o20200002, ^uint64(99)
		afUnix, afAlg      = 1, 38
		afInet, afVsock    = 2, 40
	)
	for _, gid := range []uint32{0, 1000} {
		p := profileFor(t, gid, SeccompDefault)
		for _, c := range []struct {
			name string
			args []uint64
			want bool
		}{
			{"socket", []uint64{afUnix}, true},
			{"socket", []uint64{afInet}, true},
			{"socket", []uint64{afAlg}, false},
			{"socket", []uint64{afVsock}, false},
			{"io_uring_setup", nil, false},
			{"io_uring_enter", nil, false},
			{"io_uring_register", nil, false},
			{"openat2", nil, false},
			{"openat", []uint64{at, 0, creat, 0o755}, true},
			{"openat", []uint64{at, 0, creat, 0o4755}, false},
			{"openat", []uint64{at, 0, tmpfile, 0o4755}, false},
			// Without O_CREAT the fourth argument is whatever is in the register.
			{"openat", []uint64{at, 0, 0, 0xffffffff}, true},
			{"open", []uint64{0, creat, 0o644}, true},
			{"open", []uint64{0, creat, 0o6755}, false},
			{"open", []uint64{0, 0, 0xffffffff}, true},
			{"creat", []uint64{0, 0o644}, true},
			{"creat", []uint64{0, 0o4644}, false},
			{"chmod", []uint64{0, 0o1777}, true},
			{"chmod", []uint64{0, 0o4755}, false},
			{"chmod", []uint64{0, 0o2755}, gid != 0},
			{"fchmod", []uint64{3, 0o2755}, gid != 0},
			{"fchmod", []uint64{3, 0o4755}, false},
			{"fchmodat", []uint64{at, 0, 0o755}, true},
			{"fchmodat", []uint64{at, 0, 0o4755}, false},
			{"fchmodat2", []uint64{at, 0, 0o755}, true},
			{"fchmodat2", []uint64{at, 0, 0o4755}, false},
			{"mknod", []uint64{0, 0o100644}, true},
			{"mknod", []uint64{0, 0o104755}, false},
			{"mknodat", []uint64{at, 0, 0o010644}, true},
			{"mknodat", []uint64{at, 0, 0o104755}, false},
			{"clone", []uint64{0x10000000}, false}, // CLONE_NEWUSER
			{"clone", []uint64{0x11}, true},
			{"unshare", nil, false},
			{"mount", nil, false},
			{"bpf", nil, false},
			{"keyctl", nil, false},
			{"read", nil, true},
			{"execve", nil, true},
		} {
			if got := allows(p, c.name, c.args...); got != c.want {
				t.Errorf("group %d: %s(%#o) allowed: %v, want %v", gid, c.name, c.args, got, c.want)
			}
		}
		for _, a := range p.ArchMap {
			if len(a.SubArches) > 0 {
				t.Errorf("%s has sub-architectures %v", a.Arch, a.SubArches)
			}
		}
	}
}

// Strict refuses more, and nothing that the other allows beside it.
func TestSeccompStrictRefuses(t *testing.T) {
	const afUnix, afInet, afInet6, tcgets, high = 1, 2, 10, 0x5401, 1 << 32
	strict, usual := profileFor(t, 1000, SeccompStrict), profileFor(t, 1000, SeccompDefault)
	for _, c := range []struct {
		name string
		args []uint64
		want bool
	}{
		{"ptrace", nil, false},
		{"process_vm_readv", nil, false},
		{"process_vm_writev", nil, false},
		{"pidfd_getfd", nil, false},
		{"kcmp", nil, false},
		{"pidfd_open", nil, true},
		{"socket", []uint64{0}, false},
		{"socket", []uint64{afUnix}, false},
		{"socket", []uint64{afInet}, true},
		{"socket", []uint64{afInet6}, true},
		{"socketpair", []uint64{afUnix}, true},
		{"ioctl", []uint64{0, tcgets}, true},
		{"ioctl", []uint64{0, 0}, true},
		{"ioctl", []uint64{0, 0xffffffff}, true},
		{"ioctl", []uint64{0, 0x5411}, true},
		{"ioctl", []uint64{0, 0x5412}, false},
		{"ioctl", []uint64{0, 0x5413}, true},
		{"ioctl", []uint64{0, high | 0x5412}, false},
		{"ioctl", []uint64{0, high | 0x5413}, true},
		{"ioctl", []uint64{0, 0x541c}, false},
		{"ioctl", []uint64{0, 0x40086602}, false},
		{"ioctl", []uint64{0, 0x80086601}, true}, // FS_IOC_GETFLAGS
		{"ioctl", []uint64{0, 0x401c5820}, false},
		{"read", nil, true},
		{"execve", nil, true},
	} {
		if got := allows(strict, c.name, c.args...); got != c.want {
			t.Errorf("%s(%#x) allowed: %v, want %v", c.name, c.args, got, c.want)
		}
		if !allows(usual, c.name, c.args...) && c.want {
			t.Errorf("%s(%#x) is refused without strict", c.name, c.args)
		}
	}
	for _, value := range strictIoctls {
		for bit := range 32 {
			near := value ^ 1<<bit
			if got := allows(strict, "ioctl", 0, uint64(near)); got == slices.Contains(strictIoctls, near) {
				t.Errorf("ioctl %#x allowed: %v", near, got)
			}
		}
	}
}

// The embedded profile is the module's: an update of the module that is not
// taken over fails here.
func TestSeccompIsUpstreams(t *testing.T) {
	want, err := json.Marshal(seccomp.DefaultProfile())
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := json.Compact(&got, upstreamSeccomp); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("seccomp.default.json is not github.com/moby/profiles/seccomp's default.json; copy it, and look at the golden files")
	}
}
