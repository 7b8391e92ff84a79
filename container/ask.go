//go:build unix

package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/reaper"
)

// ask has questions answered inside the container: by PID 1, or, where that is
// no keeper, by one exec of a shell.
func (b *box) ask(ctx context.Context, items []keeper.Item) (report, error) {
	if b.pid1 == nil {
		return b.askShell(ctx, items)
	}
	answers, err := b.pid1.Report(ctx, items)
	if err != nil {
		return nil, err
	}
	r := report{}
	for i, item := range items {
		r[item] = answers[i]
	}
	return r, nil
}

// askScript answers questions with a shell's builtins alone. Its arguments are a
// word that no answer holds and then a letter and a path for each question. What
// a shell cannot tell it answers with nothing.
const askScript = `w=$1; shift
while [ $# -gt 0 ]; do
	case $1 in
	r) if [ -r "$2" ]; then echo "$w 0"; while IFS= read -r l; do echo "$l"; done < "$2"; else echo "$w 1"; fi ;;
	a) if [ -w "$2" ] && [ -x "$2" ]; then echo "$w 0"; else echo "$w 13"; fi ;;
	s) if [ -d "$2" ]; then echo "$w 0 d"; elif [ -f "$2" ] && [ -x "$2" ]; then echo "$w 0 x"; elif [ -e "$2" ]; then echo "$w 0 f"; else echo "$w 2"; fi ;;
	esac
	shift 2
done
echo "$w end"`

// askShell is ask by a shell. A question about identity is only answered with
// what kind of file there is; links are followed.
func (b *box) askShell(ctx context.Context, items []keeper.Item) (report, error) {
	word := reaper.NewID()
	argv := []string{"sh", "-c", askScript, "sh", word}
	for _, item := range items {
		argv = append(argv, string(rune(item.Ask)), item.Path)
	}
	s, err := b.exec(ctx, argv)
	if errdefs.IsConflict(err) {
		err = b.lost(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	var stdout, stderr bytes.Buffer
	if err := s.demux(&stdout, &stderr); err != nil {
		return nil, err
	}
	if whilePaused(stdout.String()) {
		return nil, b.pausedMoment()
	}
	parts := strings.Split(stdout.String(), word+" ")
	if len(parts) != len(items)+2 || parts[len(parts)-1] != "end\n" {
		return nil, fmt.Errorf("a shell in the container answered with %q, %q", short(stdout.String()), short(stderr.String()))
	}
	r := report{}
	for i, item := range items {
		r[item] = shellAnswer(item, parts[i+1])
	}
	return r, nil
}

// shellAnswer reads one answer of askScript.
func shellAnswer(item keeper.Item, text string) keeper.Answer {
	first, data, _ := strings.Cut(text, "\n")
	number, kind, _ := strings.Cut(first, " ")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 0:
		return keeper.Answer{Errno: syscall.EIO}
	case n > 0:
		return keeper.Answer{Errno: syscall.Errno(n)}
	case item.Ask == keeper.AskStat:
		return keeper.Answer{Data: []byte(kind)}
	}
	return keeper.Answer{Data: []byte(data)}
}

// file is what is known of a path inside.
type file struct {
	exists     bool
	executable bool // a program, or a link that may lead to one
	// dev and ino are 0 where a shell answered.
	dev, ino uint64
}

// file is the answer to a question about a path's identity.
func (r report) file(p string) (file, error) {
	a, ok := r[keeper.Item{Ask: keeper.AskStat, Path: p}]
	switch {
	case !ok:
		return file{}, errors.New("not asked")
	case errors.Is(a.Errno, syscall.ENOENT) || errors.Is(a.Errno, syscall.ENOTDIR):
		return file{}, nil
	case a.Errno != 0:
		return file{}, a.Errno
	case len(a.Data) == 1: // a shell's
		return file{exists: true, executable: a.Data[0] == 'x'}, nil
	}
	st, err := a.Stat()
	if err != nil {
		return file{}, err
	}
	link := st.Mode&syscall.S_IFMT == syscall.S_IFLNK
	program := st.Mode&syscall.S_IFMT == syscall.S_IFREG && st.Mode&0o111 != 0
	return file{exists: true, executable: link || program, dev: st.Dev, ino: st.Ino}, nil
}
