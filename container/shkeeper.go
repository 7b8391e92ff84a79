//go:build unix

package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// shKeeper is the keeper's work where its binary cannot be: it waits for the end
// of its standard input, which is the leash, and until then sends signals to
// process groups, each asked for by a line "NUMBER SIGNAL GROUP" and answered by
// "NUMBER STATUS": a command must be ended in time, and an exec takes a tenth of a
// second or, at the process limit, never starts. It uses builtins only. A detached
// container's stdin never ends.
//
// The engine's init is its parent, reaps, ends with it, and hands it the signals
// that it gets, so all are ignored that can be. `command` takes from trap, a
// special builtin, that a number the shell does not know would end it.
const shKeeper = `i=1
while [ $i -le 64 ]; do
	case $i in 9|17|18|19|32|33) ;; *) command trap '' $i 2>/dev/null ;; esac
	i=$((i+1))
done
while read -r n s g; do
	kill "-$s" "-$g" 2>/dev/null
	echo "$n $?"
done`

// shellKeeper asks shKeeper for signals. Commands can reach that shell's streams,
// since they are the same user's processes: an answer is good for whether a group
// that can be ended is gone, and for no more. Its methods are safe for concurrent
// use.
type shellKeeper struct {
	stdin io.Writer
	gone  <-chan struct{} // closed when the shell has ended

	mu      sync.Mutex
	number  int
	waiting map[int]chan bool
	line    []byte // the beginning of an answer
}

func newShellKeeper(stdin io.Writer, gone <-chan struct{}) *shellKeeper {
	// Several owners may share one such shell, and each sees all answers.
	return &shellKeeper{stdin: stdin, gone: gone, waiting: map[int]chan bool{}, number: rand.IntN(1 << 29)}
}

// kill sends sig, which may be 0, to a group of the container. It is
// os.ErrProcessDone when there is no such group.
func (k *shellKeeper) kill(ctx context.Context, group int, sig syscall.Signal) error {
	sent, err := k.ask(ctx, group, sig)
	if err == nil && !sent || errors.Is(err, errShellGone) {
		return os.ErrProcessDone
	}
	return err
}

// alive tells whether the shell, and with it the container, has outlived what ended
// before this call.
func (k *shellKeeper) alive(ctx context.Context, group int) bool {
	_, err := k.ask(ctx, group, 0)
	return err == nil
}

// errShellGone: the shell has ended.
var errShellGone = errors.New("the container's first process has ended")

// ask has sig sent to a group and tells whether there was one.
func (k *shellKeeper) ask(ctx context.Context, group int, sig syscall.Signal) (sent bool, err error) {
	answer := make(chan bool, 1)
	k.mu.Lock()
	k.number++
	n := k.number
	k.waiting[n] = answer
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		delete(k.waiting, n)
		k.mu.Unlock()
	}()
	if _, err := fmt.Fprintf(k.stdin, "%d %d %d\n", n, int(sig), group); err != nil {
		return false, err
	}
	select {
	case sent := <-answer:
		return sent, nil
	case <-k.gone:
		return false, errShellGone
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// Write takes the bytes that the shell prints.
func (k *shellKeeper) Write(p []byte) (int, error) {
	const longest = 64 // of a line that is an answer
	k.mu.Lock()
	defer k.mu.Unlock()
	rest := p
	for len(rest) > 0 {
		part, after, ended := bytes.Cut(rest, []byte("\n"))
		if len(k.line) <= longest {
			k.line = append(k.line, part[:min(len(part), longest+1)]...)
		}
		rest = after
		if !ended {
			break
		}
		number, status, _ := bytes.Cut(k.line, []byte(" "))
		if n, err := strconv.Atoi(string(number)); err == nil && k.waiting[n] != nil {
			k.waiting[n] <- string(status) == "0"
			delete(k.waiting, n)
		}
		k.line = k.line[:0]
	}
	return len(p), nil
}
