//go:build unix

package container

import (
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// strictRefused are the calls that look into other processes of the same user.
var strictRefused = []string{"kcmp", "pidfd_getfd", "process_vm_readv", "process_vm_writev", "ptrace"}

// strictIoctls are requests of ioctl(2) on most architectures: TIOCSTI and
// TIOCLINUX put input into a terminal (TIOCSTI(2const)), FS_IOC_SETFLAGS (its
// 32-bit form too) and FS_IOC_FSSETXATTR set attributes, among them the project id
// by which a quota is counted (ioctl_fs(2)).
var strictIoctls = []uint32{0x5412, 0x541c, 0x40086602, 0x40046602, 0x401c5820}

const (
	afInet = 2
	// firstFamilies is upstream's bound: it allows every family below it.
	firstFamilies = 3
)

// makeStrict takes out of p what SeccompStrict refuses.
func makeStrict(p *seccomp.Seccomp) {
	for _, rule := range p.Syscalls {
		rule.Names = slices.DeleteFunc(rule.Names, func(name string) bool {
			return name == "ioctl" || slices.Contains(strictRefused, name)
		})
		if slices.Contains(rule.Names, "socket") && len(rule.Args) == 1 && rule.Args[0].Op == specs.OpLessThan && rule.Args[0].Value == firstFamilies {
			rule.Args[0].Op, rule.Args[0].Value = specs.OpEqualTo, afInet
		}
	}
	p.Syscalls = append(p.Syscalls, allowAllBut("ioctl", 1, strictIoctls)...)
}

// allowAllBut allows a call unless the lower half of an argument, all that the
// kernel looks at, is one of the values. A rule can compare an argument once, and
// rules are alternatives, so there is one for each way to differ: a prefix that some
// value has, and then a bit that none with that prefix has.
func allowAllBut(name string, arg uint, values []uint32) []*seccomp.Syscall {
	var rules []*seccomp.Syscall
	seen := map[[2]uint64]bool{}
	for bit := 31; bit >= 0; bit-- {
		mask := uint64(1<<32-1) &^ (1<<bit - 1)
		taken := map[uint64]bool{}
		for _, v := range values {
			taken[uint64(v)&mask] = true
		}
		for _, v := range values {
			other := uint64(v)&mask ^ 1<<bit
			if taken[other] || seen[[2]uint64{mask, other}] {
				continue
			}
			seen[[2]uint64{mask, other}] = true
			rules = append(rules, &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{
				Names: []string{name}, Action: specs.ActAllow,
				Args: []specs.LinuxSeccompArg{{Index: arg, Value: mask, ValueTwo: other, Op: specs.OpMaskedEqual}},
			}})
		}
	}
	return rules
}
