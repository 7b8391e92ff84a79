# run.sh: runs one command in a container that has nothing but a POSIX sh.
#
# Why a script: `docker exec` tells neither the process id, nor when the command
# itself is done while something it left holds the pipes, nor which bytes are
# the command's and which the engine's. This wrapper says all three with marker
# lines, and ends what the command left in its group. It is given as
# `sh -c TEXT wsctl kill|keep DIR`, so that no file of ours has to be in the
# image, and uses builtins only: at a spent process limit a fork would fail.
#
# Standard input is: a token line, the script, the token line again, the
# command's own input. `read -r` takes single bytes from a pipe, so the rest is
# left for the command. The token is in no argument and no environment: what
# prints a line that looks like a marker is not believed.
#
# The first unset takes the export mark from our names; without it an image with
# such a variable would hand the token to the command.
unset wsctl_token wsctl_script wsctl_line wsctl_status
IFS= read -r wsctl_token || exit 125
wsctl_script=
while :; do
	IFS= read -r wsctl_line || exit 125
	[ "$wsctl_line" = "$wsctl_token" ] && break
	wsctl_script="$wsctl_script$wsctl_line
"
done
# From here the wrapper outlives a signal to its group. A handler, not an ignore:
# a handler is reset in the child, an ignore would be inherited by the command.
trap : TERM HUP INT
# 3 is the command's stderr; the shell's own "Killed" and "Terminated" lines go
# nowhere. The script puts 3 back to 2 as its last act before it runs the command.
exec 3>&2 2>/dev/null
# `cd` makes OLDPWD, which the command would not have seen.
if ! cd "$2"; then
	printf '\036%s nodir\n' "$wsctl_token"
	printf '\036%s nodir\n' "$wsctl_token" >&3
	exit 125
fi
unset OLDPWD
printf '\036%s start %s\n' "$wsctl_token" "$$"
printf '\036%s start %s\n' "$wsctl_token" "$$" >&3
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
