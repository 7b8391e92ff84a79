package workspace

import (
	"crypto/rand"
	"strings"
)

// shellLaunch makes an interactive shell without job control of the shell that
// runs it. bash is told not to read start-up files nor to edit lines, which
// other shells know no options for; shopt tells it from them. BusyBox ash, told
// from dash by source, takes the exit of a background process for the end of
// its standard input (its line editor's read fails with EINTR), but not for
// that of a file.
const shellLaunch = `case $(type shopt 2>/dev/null) in *builtin*) exec "$0" --norc --noprofile --noediting -i +m ;; esac
case $(type source 2>/dev/null) in *builtin*) if (: </dev/fd/0) 2>/dev/null; then exec "$0" -i +m /dev/fd/0; fi ;; esac
exec "$0" -i +m`

// shellInit puts the two streams aside: the shell's own become /dev/null, so
// that prompts, traces of our lines and words about jobs are seen by nobody.
// The second line turns off what bash does to its input. In others it
// fails, by "command" so that they do not drop what they have read ahead.
const shellInit = "\\exec 8>&1 9>&2 >/dev/null 2>&1\n\\command set +H +o history\n"

// shellMarks are what tell a command's output from what comes before and after
// it. Both begin with a control character, so that text is hardly ever held
// back as the possible beginning of one.
type shellMarks struct{ start, end string }

func newShellMarks() shellMarks {
	return shellMarks{start: "\x1e" + rand.Text(), end: "\x1e" + rand.Text()}
}

// frame is what makes the shell evaluate text with stdin as its input.
//
// The start mark is printed when the whole frame has been read, so an interrupt
// that comes after it cannot leave half of it to be read as commands. Dash and
// ash evaluate the text by "command eval": errors that would end the line end
// the text alone. bash reads it by "." from a here-document, because an
// interactive bash whose input is not a file adds a job number on stderr for
// "&", a word for exit and one about the terminal.
func (x *shellSession) frame(m shellMarks, stdin, text string) string {
	var b strings.Builder
	b.WriteString(`{ \command printf %s '` + m.start + `'; \command printf %s '` + m.start + `' >&2; { `)
	if x.bash {
		b.WriteString(`\command . /dev/fd/7; } <` + shellQuote(stdin) + `; } >&8 2>&9 8>&- 9>&- 7<<'` + m.start[1:] + "'\n")
		b.WriteString("\\exec 7<&-; " + text + "\n" + m.start[1:] + "\n")
		return b.String()
	}
	b.WriteString(`\command eval ` + shellQuote(text) + `; } <` + shellQuote(stdin) + "; } >&8 2>&9 8>&- 9>&-\n")
	return b.String()
}

// epilogue makes the shell print the end mark and value, a word in double
// quotes, on both streams. It is one eval so that value is expanded before
// anything changes it. The function that it removes would shadow the only way
// to call a builtin that a function shadows.
func epilogue(m shellMarks, value string) string {
	return `\eval "\\set +exv; \\unset -f command; \\command printf '%s\\n' '` + m.end + value + `' >&8; ` +
		`\\command printf '%s\\n' '` + m.end + value + `' >&9; \\trap - INT"` + "\n"
}

// shellQuote makes s one word of the shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// listAll is a function that prints pid and parent of every process. The name of
// a process in /proc/PID/stat may hold blanks and parentheses (proc_pid_stat(5)),
// so fields are counted from the last one.
const listAll = `
list() {
	if test -r /proc/self/stat; then
		for f in /proc/[0-9]*/stat; do
			read -r l <"$f" || continue
			set -- ${l##*) }
			f=${f#/proc/}
			echo "${f%/stat} $2"
		done 2>/dev/null
	else
		ps -A -o pid=,ppid=
	fi
}
`

// listChildren prints the children of process $1. A shell has one thread, and the
// kernel mostly tells its children (proc_tid_children(5)).
const listChildren = `f=/proc/$1/task/$1/children
if [ -r "$f" ]; then
	read -r all <"$f"
	echo "$all"
	exit
fi` + listAll + `list | while read -r pid ppid; do [ "$ppid" != "$1" ] || echo "$pid"; done`

// killBelow ends, with SIGKILL, every descendant of process $1 but not itself.
const killBelow = listAll + `
table=$(list) all=" $1 " more=1
while [ $more = 1 ]; do
	more=0
	while read -r pid ppid; do
		case $all in *" $pid "*) continue ;; esac
		case $all in *" $ppid "*) all="$all$pid " more=1 ;; esac
	done <<E
$table
E
done
set -- $all
shift
[ $# = 0 ] || kill -KILL "$@"`
