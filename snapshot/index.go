//go:build linux

package snapshot

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"io/fs"

	"github.com/wsctl/wsctl/host"
)

// index remembers what files looked like when they were read: one that looks
// the same still holds the same. It is a cache: without it, or with a damaged
// one, everything is read.
//
//	magic
//	for each directory: length of the rest, path, device, and for each file
//	  name, inode, size, st_mtim, st_ctim, st_mode's bits, sum
//	SHA-256 of all that
type index struct {
	b    []byte
	dirs map[string][]byte
}

const (
	indexMagic = "WSINDEX1"
	maxIndex   = 4 << 30
)

func (s *Store) readIndex() *index {
	x := &index{dirs: map[string][]byte{}}
	b, err := s.dir.read(indexName, maxIndex)
	if err != nil || len(b) < len(indexMagic)+len(Sum{}) {
		return x
	}
	text, check := b[:len(b)-len(Sum{})], b[len(b)-len(Sum{}):]
	if sumOf(text) != Sum(check) || string(text[:len(indexMagic)]) != indexMagic {
		return x
	}
	x.b = text
	p := parser{b: text[len(indexMagic):]}
	for len(p.b) > 0 && p.ok() {
		block := parser{b: p.bytes(int(p.uint64()))}
		dir := block.text()
		x.dirs[dir] = block.b
	}
	if !p.ok() {
		clear(x.dirs)
	}
	return x
}

// indexDir goes through what is remembered of one directory, in the order of
// names.
type indexDir struct {
	p    parser
	dev  uint64
	name []byte // that comes next
	more bool
}

func (x *index) dir(name string) indexDir {
	d := indexDir{p: parser{b: x.dirs[name]}}
	d.dev = d.p.uint64()
	d.next()
	return d
}

const indexFixed = 8*4 + 4 + len(Sum{})

func (d *indexDir) next() {
	if d.more = d.p.ok() && len(d.p.b) > 0; d.more {
		d.name = d.p.bytes(int(d.p.uvarint()))
	}
}

// find is the sum of the file that e describes, when it looks as it did. Names
// are asked for in order.
func (d *indexDir) find(e *host.Entry) (sum Sum, same bool) {
	for d.more && string(d.name) < e.Name {
		d.p.bytes(indexFixed)
		d.next()
	}
	if !d.more || string(d.name) != e.Name {
		return sum, false
	}
	p := parser{b: d.p.bytes(indexFixed)}
	same = p.uint64() == e.Ino && int64(p.uint64()) == e.Size && int64(p.uint64()) == e.Modified && int64(p.uint64()) == e.Changed &&
		modeBits(e.Mode) == uint32(p.uint16())<<16|uint32(p.uint16()) && d.dev == e.Dev
	copy(sum[:], p.bytes(len(sum)))
	same = same && p.ok()
	d.next()
	return sum, same
}

// modeBits has the bits of a regular file's mode in four bytes.
func modeBits(m fs.FileMode) uint32 { return uint32(m) }

// writeIndex writes down the files of a scan that can be trusted, a directory at
// a time. It need not outlive a crash of the machine: the sum tells.
func (s *Store) writeIndex(top *node) error {
	return s.dir.publish(indexName, publishing{}, func(f io.Writer) error {
		hash := sha256.New()
		w := bufio.NewWriterSize(io.MultiWriter(f, hash), 256<<10)
		if _, err := w.WriteString(indexMagic); err != nil {
			return err
		}
		var b []byte
		if err := writeIndexDir(w, top, ".", &b); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		_, err := f.Write(hash.Sum(nil))
		return err
	})
}

// writeIndexDir writes down one directory and those below it; buf is reused.
func writeIndexDir(w *bufio.Writer, n *node, path string, buf *[]byte) error {
	b := binary.BigEndian.AppendUint64((*buf)[:0], 0)
	b = appendText(b, path)
	b = binary.BigEndian.AppendUint64(b, n.at.Dev)
	empty := len(b)
	for i := range n.children {
		c := &n.children[i]
		if !c.trusted {
			continue
		}
		b = appendText(b, c.at.Name)
		b = binary.BigEndian.AppendUint64(b, c.at.Ino)
		b = binary.BigEndian.AppendUint64(b, uint64(c.at.Size))
		b = binary.BigEndian.AppendUint64(b, uint64(c.at.Modified))
		b = binary.BigEndian.AppendUint64(b, uint64(c.at.Changed))
		b = binary.BigEndian.AppendUint32(b, modeBits(c.at.Mode))
		b = append(b, c.sum[:]...)
	}
	*buf = b
	if len(b) > empty {
		binary.BigEndian.PutUint64(b, uint64(len(b)-8))
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	for i := range n.children {
		if c := &n.children[i]; c.kept() && c.at.Mode.IsDir() {
			if err := writeIndexDir(w, c, join(path, c.at.Name), buf); err != nil {
				return err
			}
		}
	}
	return nil
}

// join is path.Join for a path below the root and a name.
func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
