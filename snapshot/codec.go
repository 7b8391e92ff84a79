//go:build linux

package snapshot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/wsctl/wsctl/workspace"
)

const (
	// smallObject is the size below which nothing is compressed: a frame
	// would save less than it costs.
	smallObject = 96
	// wholeObject is the size up to which an object is in memory at once.
	wholeObject = 4 << 20
	// window bounds how far back a frame refers, and so the memory of each
	// coder.
	window = 1 << 20
)

// codec compresses and decompresses. Its coders are reused.
type codec struct {
	encoders, decoders, readers sync.Pool
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options are constants
	}
	return v
}

func newCodec() *codec {
	level := []zstd.EOption{zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true), zstd.WithEncoderLevel(zstd.SpeedDefault)}
	c := &codec{}
	c.encoders.New = func() any { return must(zstd.NewWriter(nil, level...)) }
	c.decoders.New = func() any {
		return must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*wholeObject), zstd.WithDecoderLowmem(true)))
	}
	c.readers.New = func() any {
		return must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(2*window), zstd.WithDecoderLowmem(true)))
	}
	return c
}

// compress returns b as it is to be stored, in buf when it can, and its flags.
func (c *codec) compress(buf, b []byte) (stored []byte, flags byte) {
	if len(b) < smallObject {
		return b, 0
	}
	enc := c.encoders.Get().(*zstd.Encoder) //nolint:forcetypeassert // the pool holds nothing else
	out := enc.EncodeAll(b, buf[:0])
	c.encoders.Put(enc)
	if len(out) >= len(b) {
		return b, 0
	}
	return out, flagZstd
}

// whole reads an object of at most wholeObject bytes and checks its sum.
func (c *codec) whole(f io.ReaderAt, o object) ([]byte, error) {
	b := make([]byte, o.stored)
	if _, err := f.ReadAt(b, o.off); err != nil {
		return nil, damaged(err)
	}
	if o.flags&flagZstd != 0 {
		dec := c.decoders.Get().(*zstd.Decoder) //nolint:forcetypeassert // the pool holds nothing else
		out, err := dec.DecodeAll(b, make([]byte, 0, o.raw))
		c.decoders.Put(dec)
		if err != nil {
			return nil, damaged(err)
		}
		b = out
	}
	if int64(len(b)) != o.raw || sumOf(b) != o.sum {
		return nil, errSum()
	}
	return b, nil
}

// open reads an object from beginning to end. What it holds is right only once
// Read has answered io.EOF; a wrong sum is CORRUPT in its stead.
func (c *codec) open(f io.ReaderAt, o object) (io.ReadCloser, error) {
	if o.raw <= wholeObject {
		b, err := c.whole(f, o)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(bytes.NewReader(b)), nil
	}
	return c.stream(f, o)
}

func (c *codec) stream(f io.ReaderAt, o object) (*checkedReader, error) {
	r := &checkedReader{c: c, src: io.NewSectionReader(f, o.off, o.stored), want: o, sum: sha256.New()}
	if o.flags&flagZstd != 0 {
		r.dec = c.readers.Get().(*zstd.Decoder) //nolint:forcetypeassert // the pool holds nothing else
		if err := r.dec.Reset(r.src); err != nil {
			return nil, damaged(err)
		}
		r.src = r.dec
	}
	return r, nil
}

type checkedReader struct {
	c    *codec
	src  io.Reader
	dec  *zstd.Decoder
	want object
	got  int64
	sum  hash.Hash
	any  bool // the sum is not known beforehand
}

func (r *checkedReader) Read(b []byte) (int, error) {
	n, err := r.src.Read(b)
	r.got += int64(n)
	_, _ = r.sum.Write(b[:n]) // a hash never fails
	switch {
	case r.got > r.want.raw:
		return 0, errSum()
	case err == io.EOF && (r.got != r.want.raw || !r.any && Sum(r.sum.Sum(nil)) != r.want.sum):
		return 0, errSum()
	case err != nil && err != io.EOF:
		return 0, damaged(err)
	}
	return n, err
}

func (r *checkedReader) Close() error {
	if r.dec != nil {
		_ = r.dec.Reset(nil)
		r.c.readers.Put(r.dec)
		r.dec = nil
	}
	return nil
}

// hash is the sum of an object whose sum is not known.
func (c *codec) hash(f io.ReaderAt, o object) (Sum, error) {
	r, err := c.stream(f, o)
	if err != nil {
		return Sum{}, err
	}
	defer r.Close()
	r.any = true
	if _, err := io.Copy(io.Discard, r); err != nil {
		return Sum{}, err
	}
	return Sum(r.sum.Sum(nil)), nil
}

func errSum() error {
	return workspace.Errorf(workspace.ErrCorrupt, "", "", "the stored content is not what was stored")
}

func damaged(err error) error {
	var e *workspace.Error
	if errors.As(err, &e) {
		return err
	}
	return workspace.Errorf(workspace.ErrCorrupt, "", "", "the stored content cannot be read: %w", err)
}
