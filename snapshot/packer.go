//go:build linux

package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

const (
	// fullPack is the size from which a pack takes no more objects.
	fullPack = 32 << 20
	// packBuffer is what is gathered before it is written.
	packBuffer = 1 << 20
)

// packFile is a pack being written, under a temporary name.
type packFile struct {
	dir     directory
	f       *os.File
	temp    string
	buf     []byte
	off     int64 // of the end of buf
	objects []object
}

func newPackFile(dir directory) (*packFile, error) {
	p := &packFile{dir: dir, temp: tempName(), buf: make([]byte, 0, packBuffer+packBuffer/4)}
	var err error
	if p.f, err = dir.create(p.temp); err != nil {
		return nil, err
	}
	p.write([]byte(packMagic))
	return p, nil
}

func (p *packFile) write(b []byte) {
	p.buf = append(p.buf, b...)
	p.off += int64(len(b))
}

func (p *packFile) flush() error {
	_, err := p.f.Write(p.buf)
	p.buf = p.buf[:0]
	return err
}

// add appends an object whose stored form is b.
func (p *packFile) add(o object, b []byte) error {
	o.stored = int64(len(b))
	p.buf = appendHead(p.buf, &o)
	p.off += headSize
	o.off = p.off
	p.write(b)
	p.objects = append(p.objects, o)
	if len(p.buf) < packBuffer {
		return nil
	}
	at := p.off - int64(len(p.buf))
	if err := p.flush(); err != nil {
		return err
	}
	// The disk gets busy now, so that the flush at the end is short. It is a
	// hint: an error comes again from there.
	_ = unix.SyncFileRange(int(p.f.Fd()), at, 0, unix.SYNC_FILE_RANGE_WRITE)
	return nil
}

// finish makes the pack durable, and then gives it its name.
func (p *packFile) finish() (name string, err error) {
	p.write(appendTable(p.objects))
	if err = p.flush(); err == nil {
		err = p.f.Sync()
	}
	if err = errors.Join(err, p.f.Close()); err == nil {
		name = randomID()
		err = p.dir.rename(p.temp, name, true)
	}
	if err != nil {
		_ = p.dir.remove(p.temp)
		return "", err
	}
	return name, nil
}

func (p *packFile) discard() {
	p.f.Close()
	_ = p.dir.remove(p.temp)
}

// packer adds objects to a store: each once, many goroutines at a time. What
// it has added is in the store when finish returns, and not before.
type packer struct {
	s *session

	mu    sync.Mutex
	cur   *packFile
	full  []*packFile
	added map[Sum]struct{}
	count int
	bytes int64
}

func (s *session) newPacker() *packer { return &packer{s: s, added: map[Sum]struct{}{}} }

// claim reports whether the caller is to add the object: it is neither in the
// store nor being added.
func (p *packer) claim(sum Sum) bool {
	if p.s.has(sum) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.added[sum]; ok {
		return false
	}
	p.added[sum] = struct{}{}
	return true
}

// add adds an object that is in memory; buf is for its stored form.
func (p *packer) add(content, buf []byte, flags byte) (Sum, []byte, error) {
	sum := sumOf(content)
	if !p.claim(sum) {
		return sum, buf, nil
	}
	stored, how := p.s.store.codec.compress(buf, content)
	if how&flagZstd != 0 {
		buf = stored
	}
	return sum, buf, p.append(object{sum: sum, flags: flags | how, raw: int64(len(content))}, stored)
}

// append adds an object as it is stored.
func (p *packer) append(o object, stored []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil {
		var err error
		if p.cur, err = newPackFile(p.s.store.packs); err != nil {
			return err
		}
	}
	p.count++
	p.bytes += int64(len(stored)) + headSize
	if err := p.cur.add(o, stored); err != nil {
		return err
	}
	if p.cur.off >= fullPack {
		p.full, p.cur = append(p.full, p.cur), nil
	}
	return nil
}

// stream adds what r holds, however long it is, in a pack of its own, when accept
// says so at its end.
func (p *packer) stream(ctx context.Context, r io.Reader, accept func(size int64) bool) (sum Sum, size int64, err error) {
	f, err := newPackFile(p.s.store.packs)
	if err != nil {
		return sum, 0, err
	}
	defer func() {
		if f != nil {
			f.discard()
		}
	}()
	o := object{flags: flagZstd}
	f.buf = appendHead(f.buf, &o)
	f.off += headSize
	o.off = f.off
	if err := f.flush(); err != nil {
		return sum, 0, err
	}
	hash := sha256.New()
	count := &counter{ctx: ctx, w: f.f}
	enc := p.s.store.codec.encoders.Get().(*zstd.Encoder) //nolint:forcetypeassert // the pool holds nothing else
	enc.Reset(count)
	size, err = io.CopyBuffer(io.MultiWriter(hash, enc), struct{ io.Reader }{r}, make([]byte, 256<<10))
	err = errors.Join(err, enc.Close())
	enc.Reset(nil)
	p.s.store.codec.encoders.Put(enc)
	if err != nil {
		return sum, size, err
	}
	sum = Sum(hash.Sum(nil))
	if !accept(size) || !p.claim(sum) {
		return sum, size, nil
	}
	o.sum, o.stored, o.raw = sum, count.n, size
	if _, err := f.f.WriteAt(appendHead(nil, &o), o.off-headSize); err != nil {
		return sum, size, err
	}
	f.off += count.n
	f.objects = append(f.objects, o)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	p.bytes += o.stored + headSize
	p.full = append(p.full, f)
	f = nil
	return sum, size, nil
}

// counter counts what passes, and stops when ctx ends.
type counter struct {
	ctx context.Context //nolint:containedctx // the life of one stream
	w   io.Writer
	n   int64
}

func (c *counter) Write(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// finish makes all that was added part of the store, and durable but for the names
// of packs: the caller syncs the directory.
func (p *packer) finish() error {
	packs := p.full
	if p.cur != nil {
		packs = append(packs, p.cur)
	}
	p.full, p.cur, p.added = nil, nil, nil
	if len(packs) == 0 {
		return nil
	}
	for i, f := range packs {
		name, err := f.finish()
		if err != nil {
			for _, rest := range packs[i+1:] {
				rest.discard()
			}
			return err
		}
		p.s.store.learn(name, f.objects)
		packs[i] = nil
	}
	return nil
}

// discard removes what was not finished.
func (p *packer) discard() {
	for _, f := range p.full {
		f.discard()
	}
	if p.cur != nil {
		p.cur.discard()
	}
	p.full, p.cur = nil, nil
}
