//go:build linux

package snapshot

import (
	"encoding/binary"
	"io/fs"
	"strings"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// Entry is one file, directory or link of a snapshot.
type Entry struct {
	Name string
	// Mode is the kind (regular, fs.ModeDir or fs.ModeSymlink) and, but for
	// a link, the permission bits.
	Mode     fs.FileMode
	Modified int64 // nanoseconds since 1970
	// Size is that of a file, in bytes.
	Size int64
	// Sum names the content of a file or the listing of a directory.
	Sum Sum
	// Target is the text of a link.
	Target string
}

// ModTime is Modified as a time.
func (e *Entry) ModTime() time.Time { return time.Unix(0, e.Modified) }

// Bytes that say what an entry is.
const (
	kindFile = 'f'
	kindDir  = 'd'
	kindLink = 'l'
)

// appendEntry adds an entry to a listing: its kind, permission bits, time, name,
// and for a file its size and sum, for a directory its sum, for a link its text.
func appendEntry(b []byte, e *Entry) []byte {
	kind := byte(kindFile)
	switch {
	case e.Mode.IsDir():
		kind = kindDir
	case e.Mode&fs.ModeSymlink != 0:
		kind = kindLink
	}
	b = append(b, kind)
	b = binary.BigEndian.AppendUint16(b, uint16(e.Mode.Perm()))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Modified))
	b = appendText(b, e.Name)
	switch kind {
	case kindFile:
		b = binary.AppendUvarint(b, uint64(e.Size))
		b = append(b, e.Sum[:]...)
	case kindDir:
		b = append(b, e.Sum[:]...)
	case kindLink:
		b = appendText(b, e.Target)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// parseListing reads a listing. Names are judged here, once for all: whoever
// gets an entry can make a path of its name.
func parseListing(b []byte) ([]Entry, error) {
	p := parser{b: b}
	var entries []Entry
	for len(p.b) > 0 && p.ok() {
		var e Entry
		kind := p.byte()
		e.Mode = fs.FileMode(p.uint16())
		e.Modified = int64(p.uint64())
		e.Name = p.text()
		switch kind {
		case kindFile:
			e.Size = int64(p.uvarint())
			copy(e.Sum[:], p.bytes(len(e.Sum)))
		case kindDir:
			copy(e.Sum[:], p.bytes(len(e.Sum)))
		case kindLink:
			e.Target = p.text()
		}
		wrong := e.Mode&^fs.ModePerm != 0 || e.Size < 0 || !plainName(e.Name) ||
			len(entries) > 0 && entries[len(entries)-1].Name >= e.Name
		switch kind {
		case kindFile:
		case kindDir:
			e.Mode |= fs.ModeDir
		case kindLink:
			e.Mode |= fs.ModeSymlink
			wrong = wrong || e.Target == "" || strings.IndexByte(e.Target, 0) >= 0
		default:
			wrong = true
		}
		if p.ok() && wrong {
			return nil, errListing()
		}
		entries = append(entries, e)
	}
	if !p.ok() {
		return nil, errListing()
	}
	return entries, nil
}

func errListing() error {
	return workspace.Errorf(workspace.ErrCorrupt, "", "", "a directory listing makes no sense")
}

// plainName reports whether a listing may have the name: one part, and none that
// is always left out.
func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= 255 && !strings.ContainsAny(name, "/\x00") && !alwaysLeftOut(name)
}

// alwaysLeftOut reports whether an entry of that name is never kept, at any
// depth: the state, repositories, and what a package manager brings back.
func alwaysLeftOut(name string) bool {
	return host.SameName(name, host.StateName) || host.SameName(name, ".git") || host.SameName(name, "node_modules")
}

// parser takes values off the front of b. Once something was missing it gives
// zeros, and ok is false.
type parser struct {
	b      []byte
	failed bool
}

func (p *parser) ok() bool { return !p.failed }

func (p *parser) bytes(n int) []byte {
	if p.failed || n < 0 || n > len(p.b) {
		p.failed = true
		return nil
	}
	b := p.b[:n]
	p.b = p.b[n:]
	return b
}

func (p *parser) byte() byte {
	if b := p.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (p *parser) uint16() uint16 {
	if b := p.bytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (p *parser) uint64() uint64 {
	if b := p.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (p *parser) uvarint() uint64 {
	v, n := binary.Uvarint(p.b)
	if n <= 0 {
		p.failed = true
		return 0
	}
	p.bytes(n)
	return v
}

func (p *parser) text() string {
	n := p.uvarint()
	if n > uint64(len(p.b)) {
		p.failed = true
		return ""
	}
	return string(p.bytes(int(n)))
}
