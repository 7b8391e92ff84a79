package main

import (
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/workspace"
)

// pullProgress shows the pull of an image: on a terminal a bar that goes when
// the pull has ended, elsewhere one line, with --quiet nothing. A pull that
// fails is told by its error.
type pullProgress struct {
	ui    *ui
	image string

	mu     sync.Mutex
	layers map[string]*layer // guarded by mu; nil: nothing came yet
	bars   *mpb.Progress     // guarded by mu; nil: no terminal
	bar    *mpb.Bar          // guarded by mu
}

// layer is how far one layer's download is, in bytes.
type layer struct{ current, total int64 }

func (u *ui) newPullProgress(image string) *pullProgress {
	return &pullProgress{ui: u, image: workspace.Printable(image)}
}

// event takes one step of the pull.
func (p *pullProgress) event(e container.PullEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.layers == nil {
		p.layers = map[string]*layer{}
		p.begin()
	}
	if p.bar == nil || e.Layer == "" {
		return
	}
	l := p.layers[e.Layer]
	if l == nil {
		l = &layer{}
		p.layers[e.Layer] = l
	}
	// The words are the engine's. Should they change, the bar is less exact.
	switch {
	case e.Status == "Downloading":
		l.current, l.total = e.Current, max(e.Total, l.total)
	case e.Status == "Download complete", e.Status == "Pull complete", e.Status == "Extracting":
		l.current = l.total
	}
	var current, total int64
	for _, l := range p.layers {
		current, total = current+l.current, total+l.total
	}
	p.bar.SetTotal(total, false)
	p.bar.SetCurrent(current)
}

// begin shows that there is a pull; mu is held.
func (p *pullProgress) begin() {
	if p.ui.isQuiet() {
		return
	}
	if !p.ui.errTTY || !p.ui.fancy {
		p.ui.talk("pulling " + p.image)
		return
	}
	p.bars = mpb.New(mpb.WithOutput(p.ui.err), mpb.WithWidth(40))
	// Counts below the total complete no bar: done ends it.
	p.bar = p.bars.New(0, mpb.BarStyle(),
		mpb.PrependDecorators(decor.Name("wsctl: pulling "+p.image+" ")),
		mpb.AppendDecorators(decor.CountersKibiByte("% .1f of % .1f")))
}

// done takes the bar away. It may be called when there was no pull, and again.
func (p *pullProgress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		return
	}
	p.bar.Abort(true)
	p.bars.Wait()
	p.bar = nil
}
