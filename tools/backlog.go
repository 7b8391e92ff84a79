package tools

import "sync"

// backlog keeps the latest output of a process, by its offset from the first
// byte. It is safe for concurrent use.
type backlog struct {
	limit int

	mu    sync.Mutex
	kept  []byte
	start int64         // offset of kept[0]
	more  chan struct{} // closed by the next write
}

func newBacklog(limit int) *backlog {
	return &backlog{limit: limit, more: make(chan struct{})}
}

// Write implements io.Writer.
func (b *backlog) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(p)
	if drop := len(p) - b.limit; drop > 0 {
		b.start += int64(len(b.kept) + drop)
		b.kept, p = b.kept[:0], p[drop:]
	}
	b.kept = append(b.kept, p...)
	// Moved when it has doubled, so that each byte moves once or less.
	if drop := len(b.kept) - b.limit; drop > b.limit {
		b.start += int64(drop)
		b.kept = b.kept[:copy(b.kept, b.kept[drop:])]
	}
	close(b.more)
	b.more = make(chan struct{})
	return n, nil
}

// read returns at most limit bytes from offset on, or from the first that is
// kept when that is later, where they begin, and where the output ends. more is
// closed when there is more.
func (b *backlog) read(offset int64, limit int) (data []byte, from, end int64, more <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	end = b.start + int64(len(b.kept))
	from = min(max(offset, b.start), end)
	rest := b.kept[from-b.start:]
	return append([]byte(nil), rest[:min(limit, len(rest))]...), from, end, b.more
}
