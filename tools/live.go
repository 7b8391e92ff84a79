package tools

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
)

// liveOutput takes the output of a command as it comes: it passes it on as
// progress, and keeps all of it for a file. Memory is bounded: what is more
// than a result shows goes to the file at once.
type liveOutput struct {
	ctx  context.Context //nolint:containedctx // the life of one call
	call *call

	mu      sync.Mutex
	streams []*liveStream
	head    []byte // not yet in a file
	total   int64
	file    *io.PipeWriter // the file under way; nil: none
	saved   chan struct{}  // closed when path and err are set
	path    string
	err     error
}

func newLiveOutput(ctx context.Context, c *call) *liveOutput {
	return &liveOutput{ctx: ctx, call: c}
}

// liveStream is one stream of it.
type liveStream struct {
	out  *liveOutput
	name string
	rest []byte // the beginning of a character
}

func (o *liveOutput) stream(name string) io.Writer {
	s := &liveStream{out: o, name: name}
	o.streams = append(o.streams, s)
	return s
}

// Write implements io.Writer. It never fails: that a file cannot be written is
// told in the end.
func (s *liveStream) Write(p []byte) (int, error) {
	o := s.out
	o.mu.Lock()
	defer o.mu.Unlock()
	s.tell(p, false)
	o.keep(p)
	return len(p), nil
}

// tell passes p on, whole characters only unless it is the last.
func (s *liveStream) tell(p []byte, last bool) {
	if s.out.call.progress == nil {
		return
	}
	p = append(s.rest, p...)
	s.rest = nil
	if !last {
		n := len(p) - unfinished(p)
		s.rest = bytes.Clone(p[n:])
		p = p[:n]
	}
	if len(p) > 0 {
		text, _ := valid(p)
		s.out.call.progress(Progress{Stream: s.name, Text: text})
	}
}

// keep adds p to what is saved.
func (o *liveOutput) keep(p []byte) {
	limits := o.call.set.opts.Limits
	if room := limits.SavedOutput - o.total; int64(len(p)) > room {
		o.total += int64(len(p))
		p = p[:max(room, 0)]
	} else {
		o.total += int64(len(p))
	}
	if o.file == nil && len(o.head)+len(p) <= 2*limits.CommandOutput {
		o.head = append(o.head, p...)
		return
	}
	if o.file == nil {
		o.begin()
	}
	// An error is that of the save, and told by it.
	_, _ = o.file.Write(p)
}

// begin saves what there is, and what is still to come.
func (o *liveOutput) begin() {
	r, w := io.Pipe()
	o.file, o.saved = w, make(chan struct{})
	head := o.head
	o.head = nil
	go func() {
		defer close(o.saved)
		o.path, o.err = o.call.save(o.ctx, io.MultiReader(bytes.NewReader(head), r), 0)
		_ = r.CloseWithError(io.ErrClosedPipe)
	}()
}

// finish ends the file, if there is one or must be, and returns its path, and
// what is to be said of it.
func (o *liveOutput) finish(truncated bool) (path, warning string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.streams {
		s.tell(nil, true)
	}
	if o.file == nil {
		if !truncated {
			return "", ""
		}
		o.begin()
	}
	_ = o.file.Close()
	<-o.saved
	limit := o.call.set.opts.Limits.SavedOutput
	switch {
	case o.err != nil:
		return "", "The output that is left out could not be saved and is lost: " + clip(failure(o.call.tool.Name, o.err).Error(), 300)
	case o.total > limit:
		warning = fmt.Sprintf("Of %s of output the first %d are saved.", count(o.total, "byte"), limit)
	}
	return o.path, warning
}
