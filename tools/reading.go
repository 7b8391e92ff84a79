package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/wsctl/wsctl/workspace"
)

const (
	// sniffBytes is how much of a file's beginning tells what it is.
	sniffBytes = 8000
	// scanBytes is how much is read at a time where lines are counted.
	scanBytes = 256 << 10
	// countBytes is the size up to which the lines of a file are counted to
	// its end: 64 MiB take some 20 ms.
	countBytes = 64 << 20
	// defaultLines is how many lines are read when no limit is given.
	defaultLines = 2000
	// maxImageBytes is the largest image that is shown.
	maxImageBytes = 5 << 20
)

var bom = []byte("\xef\xbb\xbf")

// readable is an open file under way to a readFileOutput.
type readable struct {
	workspace.File
	ctx  context.Context //nolint:containedctx // the life of one call
	head []byte          // its first bytes
	room int             // characters of the result that are left for content
	// textOnly: the result has no structured form.
	textOnly bool
	out      readFileOutput
}

// openReadable opens a file and reads its beginning.
func openReadable(ctx context.Context, c *call, path string) (*readable, error) {
	file, err := c.ws.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	f := &readable{File: file, ctx: ctx, room: c.contentRoom(), textOnly: c.set.opts.TextOnly}
	f.out.Path, _ = valid([]byte(path))
	fi, err := file.Stat()
	if err == nil {
		f.out.Size, f.out.Version = fi.Size(), workspace.VersionOf(fi)
		f.head = make([]byte, sniffBytes)
		var n int
		n, err = f.readAt(f.head, 0)
		f.head = f.head[:n]
	}
	if err != nil {
		file.Close()
		return nil, asRead(ctx, path, err)
	}
	// A file may grow while it is read, and one of /proc says 0.
	f.out.Size = max(f.out.Size, int64(len(f.head)))
	f.out.BOM = bytes.HasPrefix(f.head, bom)
	return f, nil
}

// factsRoom is what a result of read_file says beside the content, at most, in
// characters.
const factsRoom = 1500

// contentRoom is how many characters of a result there are for content.
func (c *call) contentRoom() int {
	limit := c.set.opts.Limits.MaxResultLength
	if c.tool.MaxResultLength > 0 {
		limit = c.tool.MaxResultLength
	}
	return max(limit-factsRoom, 16)
}

// fits is how many bytes of b, in whole characters, take at most room
// characters: in the text, and again in the structured form.
// left is what is left of the room.
func (f *readable) fits(b []byte, room int) (n, left int) {
	for n < len(b) {
		r, size := rune(b[n]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(b[n:])
		}
		cost := 1
		if !f.textOnly {
			cost += jsonCost(r)
		}
		if cost > room {
			break
		}
		room -= cost
		n += size
	}
	return n, room
}

// readAt fills b from offset on; less than all of it is the end of the file.
func (f *readable) readAt(b []byte, offset int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.ReadAt(b, offset)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// binary reports whether the file is no text, by the rule of grep and git: a
// NUL byte near its beginning.
func (f *readable) binary() bool { return bytes.IndexByte(f.head, 0) >= 0 }

// special reads what is not shown as text: nothing, an image, a binary file.
func (f *readable) special() (done bool, err error) {
	o := &f.out
	switch o.MIME = http.DetectContentType(f.head); {
	case len(f.head) == 0:
		o.Kind, o.MIME = "empty", ""
		return true, nil
	case o.MIME == "image/png" || o.MIME == "image/jpeg" || o.MIME == "image/gif" || o.MIME == "image/webp":
		o.Kind = "image"
		if o.Size > maxImageBytes {
			o.Kind, o.MIME = "binary", o.MIME+", too large to be shown as an image"
			return true, nil
		}
		data := make([]byte, o.Size)
		n, err := f.readAt(data, 0)
		o.picture = &Blob{o.MIME, data[:n]}
		return true, err
	case f.binary():
		o.Kind = "binary"
		if bytes.HasPrefix(f.head, []byte("\xff\xfe")) || bytes.HasPrefix(f.head, []byte("\xfe\xff")) {
			o.MIME = "UTF-16 text; iconv makes it UTF-8"
		}
		return true, nil
	}
	o.MIME = ""
	return false, nil
}

// readBytes reads a part of the file by bytes.
func (f *readable) readBytes(in readFileInput) error {
	o := &f.out
	o.Kind = "bytes"
	if in.ByteOffset != nil {
		o.FirstByte = *in.ByteOffset
	}
	if o.Size == 0 {
		o.Kind = "empty"
		return nil
	}
	if o.FirstByte >= o.Size {
		return workspace.Errorf(workspace.ErrInvalidArgument, "read_file", in.Path, "byte_offset %d is past the end: the file has %s", o.FirstByte, count(o.Size, "byte"))
	}
	n := f.pageBytes()
	if in.ByteLimit > 0 {
		n = min(n, in.ByteLimit)
	}
	b := make([]byte, min(n, o.Size-o.FirstByte))
	got, err := f.readAt(b, o.FirstByte)
	if err != nil {
		return err
	}
	f.takeBytes(b[:got])
	return nil
}

// pageBytes is all that can fit in the result: a character has at most four
// bytes, and takes room in both forms.
func (f *readable) pageBytes() int64 {
	if f.textOnly {
		return 4 * int64(f.room)
	}
	return 2 * int64(f.room)
}

// takeBytes shows as much of b as fits: as text when it is, else in
// hexadecimal.
func (f *readable) takeBytes(b []byte) {
	o := &f.out
	if o.FirstByte+int64(len(b)) < o.Size && unfinished(b) < len(b) {
		b = b[:len(b)-unfinished(b)]
	}
	if bytes.IndexByte(b, 0) >= 0 {
		// A line of 16 bytes takes 79 characters, and 22 in base64.
		b = b[:min(len(b), max(f.room/7, 1))]
		o.shown = strings.TrimSuffix(hex.Dump(b), "\n")
		o.Base64 = base64.StdEncoding.EncodeToString(b)
	} else {
		n, _ := f.fits(b, f.room)
		b = b[:max(n, 1)]
		if !utf8.Valid(b) {
			n, _ = f.fits(b, f.room*3/5)
			b = b[:max(n, 1)]
			o.Base64 = base64.StdEncoding.EncodeToString(b)
		}
		o.Content, o.Replaced = valid(b)
		o.shown = o.Content
	}
	f.ends(o.FirstByte + int64(len(b)))
	if o.RemainingBytes > 0 {
		o.NextByteOffset = &o.EndByte
	}
}

// ends sets where what is shown ends.
func (f *readable) ends(at int64) {
	f.out.EndByte = at
	f.out.RemainingBytes = max(f.out.Size-at, 0)
}

// readLines reads whole lines.
func (f *readable) readLines(in readFileInput) error {
	if done, err := f.special(); done {
		return err
	}
	o := &f.out
	o.Kind = "text"
	o.FirstLine = max(in.Offset, 1)
	limit := in.Limit
	if limit == 0 {
		limit = defaultLines
	}
	start, err := f.skip(in.Path, o.FirstLine-1)
	if err != nil {
		return err
	}
	o.FirstByte = start
	b := make([]byte, min(f.pageBytes(), max(o.Size-start, 1)))
	n, err := f.readAt(b, start)
	if err != nil {
		return err
	}
	b = b[:n]
	f.out.Size = max(f.out.Size, start+int64(n))
	f.take(b, limit)
	if o.NextByteOffset == nil && o.RemainingBytes > 0 {
		o.NextOffset = new(o.LastLine + 1)
	}
	return f.countLines()
}

// skip returns where the line after the first n begins.
func (f *readable) skip(path string, n int64) (int64, error) {
	if n == 0 {
		return 0, nil
	}
	var at, seen int64
	last := byte('\n')
	buf := make([]byte, scanBytes)
	for {
		got, err := f.readAt(buf, at)
		if err != nil {
			return 0, err
		}
		if got == 0 {
			break
		}
		lines := int64(bytes.Count(buf[:got], newline))
		if seen+lines >= n {
			i := 0
			for ; seen < n; seen++ {
				i += bytes.IndexByte(buf[i:got], '\n') + 1
			}
			if at += int64(i); at < f.out.Size {
				return at, nil
			}
			last = '\n'
			break
		}
		seen += lines
		at += int64(got)
		last = buf[got-1]
	}
	if last != '\n' {
		seen++
	}
	return 0, workspace.Errorf(workspace.ErrInvalidArgument, "read_file", path, "offset %d is past the end: the file has %s", n+1, count(seen, "line"))
}

var newline = []byte("\n")

// take shows the lines at the beginning of b that fit, at most limit; of a first
// one that does not fit, its beginning.
func (f *readable) take(b []byte, limit int64) {
	o := &f.out
	var shown strings.Builder
	atEnd := o.FirstByte+int64(len(b)) >= o.Size
	length, lines := 0, int64(0)
	var lf, crlf int
	for lines < limit && length < len(b) {
		n, whole := lineLength(b[length:], atEnd)
		number := fmt.Sprintf("%d\t", o.FirstLine+lines)
		f.room -= len(number)
		fit, left := f.fits(b[length:length+n], f.room)
		if fit < n {
			n, whole = max(fit, 1), false
		}
		if !whole {
			if lines > 0 {
				break
			}
			o.NextByteOffset = &o.EndByte
		}
		line := b[length : length+n]
		length += n
		f.room = left
		text, ended := bytes.CutSuffix(line, newline)
		if ended {
			if cr, ok := bytes.CutSuffix(text, []byte("\r")); ok {
				text = cr
				crlf++
			} else {
				lf++
			}
		}
		if o.FirstLine+lines == 1 {
			text = bytes.TrimPrefix(text, bom)
		}
		s, _ := valid(text)
		shown.WriteString(number + s + "\n")
		lines++
	}
	o.shown = strings.TrimSuffix(shown.String(), "\n")
	content := b[:length]
	if o.FirstByte == 0 {
		content = bytes.TrimPrefix(content, bom)
	}
	o.Content, o.Replaced = valid(content)
	o.LastLine = o.FirstLine + lines - 1
	switch {
	case lf > 0 && crlf > 0:
		o.Endings = "mixed"
	case lf > 0:
		o.Endings = "lf"
	case crlf > 0:
		o.Endings = "crlf"
	}
	f.ends(o.FirstByte + int64(length))
}

// lineLength is the length of the line at the beginning of b, with its end;
// whole: all of it is there.
func lineLength(b []byte, atEnd bool) (n int, whole bool) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return i + 1, true
	}
	if atEnd {
		return len(b), true
	}
	return max(len(b)-unfinished(b), 1), false
}

// countLines tells how many lines the file has, where that is quick.
func (f *readable) countLines() error {
	o := &f.out
	if o.Size-o.EndByte > countBytes {
		return nil
	}
	total := o.LastLine
	last := byte('\n')
	inLine := o.NextByteOffset != nil
	buf := make([]byte, min(scanBytes, o.RemainingBytes))
	for at := o.EndByte; at < o.Size; {
		got, err := f.readAt(buf, at)
		if err != nil {
			return err
		}
		if got == 0 {
			break
		}
		total += int64(bytes.Count(buf[:got], newline))
		last = buf[got-1]
		at += int64(got)
	}
	if last != '\n' {
		total++
	}
	if inLine {
		// The line that was cut is counted already.
		total--
	}
	o.TotalLines = &total
	return nil
}
