package keeper

import "golang.org/x/sys/unix"

// sinceBoot is the time since the kernel booted, in nanoseconds: one clock for all
// processes of a kernel (CLOCK_BOOTTIME, clock_gettime(2)).
func sinceBoot() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return t.Nano()
}
