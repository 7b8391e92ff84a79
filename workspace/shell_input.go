package workspace

import (
	"io"
	"sync"
)

// shellInput is a shell's standard input, for writers that do not wait. What is
// sent is written in that order.
type shellInput struct {
	w io.Writer

	mu      sync.Mutex
	queue   []string
	writing bool // a goroutine is at it
}

func (i *shellInput) send(text string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.queue = append(i.queue, text)
	if !i.writing {
		i.writing = true
		go i.run()
	}
}

// run writes until there is nothing left. It ends with the shell at the latest.
func (i *shellInput) run() {
	for {
		i.mu.Lock()
		if len(i.queue) == 0 {
			i.writing = false
			i.mu.Unlock()
			return
		}
		text := i.queue[0]
		i.queue = i.queue[1:]
		i.mu.Unlock()
		// An error shows in that the shell ends.
		_, _ = io.WriteString(i.w, text)
	}
}
