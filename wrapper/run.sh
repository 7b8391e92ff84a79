# run.sh: runs one command in a container that has nothing but a POSIX sh.
#
# Why a script: `docker exec` tells neither the process id, nor when the command
# itself is done while something it left holds the pipes, nor which bytes are
# the command's and which the engine's. This wrapper says all three with marker
# lines, and ends what the command left in its group. It is given as
# `sh -c TEXT wsctl kill|keep`, so that no file of ours has to be in the image,
# and uses builtins only: at a spent process limit a fork would fail.
#
# Standard input is: a token line, the directory, the token line, the script, the
# token line, the command's own input. `read -r` takes single bytes from a pipe,
# so the rest is left for the command. The directory is not an argument, since an
# engine's API is JSON, which has no place for bytes that are not UTF-8. The token
# is in no argument and no environment: what prints a line that looks like a
# marker is not believed.
#
# The wrapper tells its group as soon as it knows the token. Who has not sent the
# script by then can still go away, and nothing runs; who has knows what to end.
#
# The first unset takes the export mark from our names; without it an image with
# such a variable would hand the token to the command.
unset wsctl_token wsctl_dir wsctl_script wsctl_text wsctl_line wsctl_status
IFS= read -r wsctl_token || exit 125
printf '\036%s group %s\n' "$wsctl_token" "$$"
printf '\036%s group %s\n' "$wsctl_token" "$$" >&2
wsctl_read() {
	wsctl_text=
	while :; do
		IFS= read -r wsctl_line || exit 125
		[ "$wsctl_line" = "$wsctl_token" ] && return
		wsctl_text="$wsctl_text$wsctl_line
"
	done
}
wsctl_read
wsctl_dir=${wsctl_text%?}
wsctl_read
wsctl_script=$wsctl_text
# From here the wrapper outlives a signal to its group. A handler, not an ignore:
# a handler is reset in the child, an ignore would be inherited by the command.
trap : HUP INT QUIT TRAP ABRT BUS FPE SYS USR1 USR2 PIPE ALRM TERM TSTP TTIN TTOU VTALRM PROF XCPU XFSZ
# 3 is the command's stderr; the shell's own "Killed" and "Terminated" lines go
# nowhere. The script puts 3 back to 2 as its last act before it runs the command.
exec 3>&2 2>/dev/null
# -P: the kernel's ".." after a link. `cd` makes OLDPWD, which the command would
# not have seen.
if ! cd -P "$wsctl_dir"; then
	printf '\036%s nodir\n' "$wsctl_token"
	printf '\036%s nodir\n' "$wsctl_token" >&3
	exit 125
fi
unset OLDPWD
printf '\036%s start\n' "$wsctl_token"
printf '\036%s start\n' "$wsctl_token" >&3
(
	unset wsctl_token
	eval "$wsctl_script"
)
wsctl_status=$?
# stdout and stderr are separate pipes: only a marker on each of them says that
# all output is there.
printf '\036%s exit %s\n' "$wsctl_token" "$wsctl_status"
printf '\036%s exit %s\n' "$wsctl_token" "$wsctl_status" >&3
# This ends the wrapper too, which leads the group: the status is told already.
[ "$1" = kill ] && kill -KILL "-$$"
exit "$wsctl_status"
