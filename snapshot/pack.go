//go:build linux

package snapshot

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"

	"github.com/wsctl/wsctl/workspace"
)

// A pack is a file of objects:
//
//	magic
//	objects: flags (1 byte), stored and raw length (5 bytes each), stored bytes
//	table:   for each object its sum, flags, stored and raw length (uvarint)
//	trailer: length of the table, number of objects (8 bytes each), CRC-32C of
//	         the table (4 bytes), magic
//
// The table finds an object in one read. What stands before each object finds
// it when the table is damaged or cut off. What is read is checked against its
// sum, so neither is trusted.
const (
	packMagic   = "WSPACK1\n"
	trailerSize = 8 + 8 + 4 + len(packMagic)
	headSize    = 1 + 5 + 5
)

// Flags of an object.
const (
	flagZstd    = 1 << 0
	flagListing = 1 << 1
	flagsKnown  = flagZstd | flagListing
)

// maxObject bounds the lengths that five bytes hold.
const maxObject = 1 << 40

// object is one row of a pack's table.
type object struct {
	sum         Sum
	flags       byte
	stored, raw int64
	off         int64 // of the stored bytes; not in the table
}

func appendHead(b []byte, o *object) []byte {
	b = append(b, o.flags)
	for _, n := range [...]int64{o.stored, o.raw} {
		b = append(b, byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return b
}

func parseHead(b []byte) (o object, ok bool) {
	five := func(b []byte) int64 { return int64(b[0])<<32 | int64(binary.BigEndian.Uint32(b[1:])) }
	o = object{flags: b[0], stored: five(b[1:]), raw: five(b[6:])}
	return o, o.flags&^flagsKnown == 0
}

func appendTable(objects []object) []byte {
	b := make([]byte, 0, 40*len(objects)+trailerSize)
	for i := range objects {
		o := &objects[i]
		b = append(append(b, o.sum[:]...), o.flags)
		b = binary.AppendUvarint(b, uint64(o.stored))
		b = binary.AppendUvarint(b, uint64(o.raw))
	}
	sum := crc32.Checksum(b, crcTable())
	length := uint64(len(b))
	b = binary.BigEndian.AppendUint64(b, length)
	b = binary.BigEndian.AppendUint64(b, uint64(len(objects)))
	b = binary.BigEndian.AppendUint32(b, sum)
	return append(b, packMagic...)
}

func crcTable() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// readTable reads what objects a pack has. intact is false when the table was
// not to be had, and objects are those that were found without it.
func readTable(c *codec, f *os.File) (objects []object, intact bool, err error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	objects, err = readTrailer(f, fi.Size())
	if err == nil || !isCorrupt(err) {
		return objects, err == nil, err
	}
	objects, err = scanObjects(c, f, fi.Size())
	return objects, false, err
}

func errPack() error {
	return workspace.Errorf(workspace.ErrCorrupt, "", "", "the table of a pack is damaged")
}

func isCorrupt(err error) bool { return errors.Is(err, workspace.ErrCorrupt) }

// usualTable is what is read at once at the end of a pack.
const usualTable = 32 << 10

func readTrailer(f io.ReaderAt, size int64) ([]object, error) {
	if size < int64(len(packMagic)+trailerSize) {
		return nil, errPack()
	}
	b := make([]byte, min(size, usualTable))
	if _, err := f.ReadAt(b, size-int64(len(b))); err != nil {
		return nil, err
	}
	t := parser{b: b[len(b)-trailerSize:]}
	length, count, sum := t.uint64(), t.uint64(), binary.BigEndian.Uint32(t.bytes(4))
	if string(t.b) != packMagic || length > uint64(size)-uint64(len(packMagic)+trailerSize) || count > length/35 {
		return nil, errPack()
	}
	if b = b[:len(b)-trailerSize]; length > uint64(len(b)) {
		b = make([]byte, length)
		if _, err := f.ReadAt(b, size-int64(trailerSize)-int64(length)); err != nil {
			return nil, err
		}
	}
	b = b[uint64(len(b))-length:]
	if crc32.Checksum(b, crcTable()) != sum {
		return nil, errPack()
	}
	end := size - int64(trailerSize) - int64(length)
	p := parser{b: b}
	objects := make([]object, 0, count)
	off := int64(len(packMagic))
	for len(p.b) > 0 {
		var o object
		copy(o.sum[:], p.bytes(len(o.sum)))
		o.flags = p.byte()
		o.stored, o.raw = int64(p.uvarint()), int64(p.uvarint())
		o.off = off + headSize
		if !p.ok() || o.stored < 0 || o.raw < 0 || o.stored > end-o.off || o.raw > maxObject {
			return nil, errPack()
		}
		off = o.off + o.stored
		objects = append(objects, o)
	}
	return objects, nil
}

// scanObjects goes through a pack from its beginning. Each object's sum is made
// from its content; it ends where no object can be.
func scanObjects(c *codec, f io.ReaderAt, size int64) ([]object, error) {
	var objects []object
	off := int64(len(packMagic))
	head := make([]byte, headSize)
	for off+headSize <= size {
		if _, err := f.ReadAt(head, off); err != nil {
			return nil, err
		}
		o, ok := parseHead(head)
		o.off = off + headSize
		if !ok || o.stored > size-o.off {
			break
		}
		sum, err := c.hash(f, o)
		if err != nil {
			break
		}
		o.sum = sum
		objects = append(objects, o)
		off = o.off + o.stored
	}
	return objects, nil
}
