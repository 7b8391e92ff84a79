package mcpserver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wsctl/wsctl/tools"
)

const (
	// progressPause is the least time between two notices of one call.
	progressPause = 100 * time.Millisecond
	// progressBeat is the longest: a client that gives a silent call up
	// hears that this one goes on.
	progressBeat = 5 * time.Second
	// maxProgress bounds the output in one notice, in bytes. What came
	// before is left out of it; the result has it.
	maxProgress = 8 << 10
)

// progress tells a client what a running command writes, as it comes, when the
// client has asked for that by a token. It holds little, and it never holds a
// command back: a client that does not read gets less.
type progress struct {
	notify  func(elapsed time.Duration, text string)
	began   time.Time
	wake    chan struct{} // there is output
	closing chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	text    []byte // guarded by mu: what is not told yet
	dropped int    // guarded by mu: bytes before text that are left out
}

func newProgress(ctx context.Context, req *mcp.CallToolRequest) *progress {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	p := &progress{
		began:   time.Now(),
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
	}
	p.notify = func(elapsed time.Duration, text string) {
		// The client may be gone; the call's own end tells.
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token,
			Progress:      elapsed.Seconds(),
			Message:       text,
		})
	}
	go p.tell()
	return p
}

// output takes what a command wrote. A nil progress drops it.
func (p *progress) output(o tools.Progress) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.text = append(p.text, o.Text...)
	if over := len(p.text) - maxProgress; over > 0 {
		p.text = append(p.text[:0], p.text[over:]...)
		p.dropped += over
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// close tells what is left and returns when nothing more will be told.
func (p *progress) close() {
	if p == nil {
		return
	}
	close(p.closing)
	<-p.done
}

func (p *progress) tell() {
	defer close(p.done)
	beat := time.NewTimer(progressBeat)
	defer beat.Stop()
	for {
		closing := false
		select {
		case <-p.wake:
		case <-beat.C:
			p.notify(p.elapsed(), fmt.Sprintf("[running for %v]", p.elapsed().Round(time.Second)))
		case <-p.closing:
			closing = true
		}
		if text := p.take(); text != "" {
			p.notify(p.elapsed(), text)
		}
		if closing {
			return
		}
		beat.Reset(progressBeat)
		select {
		case <-time.After(progressPause):
		case <-p.closing:
		}
	}
}

// elapsed is the progress that is told: it never goes back, as the protocol
// demands.
func (p *progress) elapsed() time.Duration { return time.Since(p.began) }

func (p *progress) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Output was cut at any byte.
	text := strings.ToValidUTF8(string(p.text), "")
	if p.dropped > 0 {
		text = fmt.Sprintf("[%d bytes left out]\n", p.dropped) + text
	}
	p.text, p.dropped = p.text[:0], 0
	return text
}
