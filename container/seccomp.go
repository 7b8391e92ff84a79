//go:build unix

package container

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// upstreamSeccomp is the default profile of github.com/moby/profiles/seccomp at
// the version in go.mod, as that module publishes it; a test compares the two.
// It is sent with every container, since engines before 2026 have looser ones
// (seccomp(2); the format is the engine's: docs.docker.com/engine/security/seccomp).
//
//go:embed seccomp.default.json
var upstreamSeccomp []byte

// Values of system call arguments on Linux. Those of open(2) differ on some
// architectures; openArches names those where they are these.
const (
	modeSetUID = 0o4000
	modeSetGID = 0o2000
	openCreat  = 0o100
	// openTmpfile is __O_TMPFILE; O_TMPFILE has O_DIRECTORY in it as well.
	openTmpfile = 0o20000000
	errnoENOSYS = 38
)

// openArches are spelled as the engine does in a profile.
var openArches = []string{"amd64", "arm64", "arm", "loongarch64", "ppc64le", "riscv64", "s390x"}

// modeCalls are the calls that give a file its mode and the index of the
// argument that does. mkdir(2) drops set-uid and set-gid by itself; creat, open
// and openat only use the argument when they create.
var modeCalls = []struct {
	name string
	arg  uint
	open bool // the argument before is open's flags
}{
	{name: "chmod", arg: 1},
	{name: "fchmod", arg: 1},
	{name: "fchmodat", arg: 2},
	{name: "fchmodat2", arg: 2},
	{name: "creat", arg: 1},
	{name: "mknod", arg: 1},
	{name: "mknodat", arg: 2},
	{name: "open", arg: 2, open: true},
	{name: "openat", arg: 3, open: true},
}

// seccompProfile is the profile for commands of the given group, as JSON for
// SecurityOpt. It is upstream's, and then:
//
//   - Only the machine's own architecture: a 32-bit call has its arguments where
//     no filter sees them (socketcall), so such a program is killed.
//   - No file can be made set-uid: outside the container it would run with the
//     rights of the user who started wsctl. Set-gid is refused only for group 0;
//     git and cp -a set it on directories. The refusal is EPERM.
//   - openat2 is ENOSYS, since its mode lies behind a pointer; every caller has
//     another way.
//
// AF_ALG, AF_VSOCK and io_uring are not in upstream's list. A test says so.
// SeccompStrict refuses more.
func seccompProfile(gid uint32, mode SeccompMode) (string, error) {
	var p seccomp.Seccomp
	if err := json.Unmarshal(upstreamSeccomp, &p); err != nil {
		return "", fmt.Errorf("seccomp profile: %w", err)
	}
	for i := range p.ArchMap {
		p.ArchMap[i].SubArches = []specs.Arch{}
	}
	ours := []string{"openat2"}
	for _, c := range modeCalls {
		ours = append(ours, c.name)
	}
	for _, rule := range p.Syscalls {
		rule.Names = slices.DeleteFunc(rule.Names, func(name string) bool { return slices.Contains(ours, name) })
	}
	special := uint64(modeSetUID)
	if gid == 0 {
		special |= modeSetGID
	}
	for _, c := range modeCalls {
		p.Syscalls = append(p.Syscalls, allowZero(c.name, c.arg, special))
		if c.open {
			// Without O_CREAT and O_TMPFILE the mode is whatever was in
			// the register.
			rule := allowZero(c.name, c.arg-1, openCreat|openTmpfile)
			rule.Includes = &seccomp.Filter{Arches: openArches}
			p.Syscalls = append(p.Syscalls, rule)
		}
	}
	nosys := uint(errnoENOSYS)
	p.Syscalls = append(p.Syscalls, &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{
		Names: []string{"openat2"}, Action: specs.ActErrno, ErrnoRet: &nosys,
	}})
	if mode == SeccompStrict {
		makeStrict(&p)
	}
	out, err := json.Marshal(&p)
	if err != nil {
		return "", fmt.Errorf("seccomp profile: %w", err)
	}
	return string(out), nil
}

// allowZero allows a call when no bit of mask is set in its argument. Several
// rules for one call are alternatives.
func allowZero(name string, arg uint, mask uint64) *seccomp.Syscall {
	return &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{
		Names:  []string{name},
		Action: specs.ActAllow,
		Args:   []specs.LinuxSeccompArg{{Index: arg, Value: mask, ValueTwo: 0, Op: specs.OpMaskedEqual}},
	}}
}
