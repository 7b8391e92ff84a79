package remote

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wsctl/wsctl/workspace"
)

// Protocol is the version that both sides speak, and the first part of every
// path.
const Protocol = 1

// Bounds of what one message may hold, in bytes or entries.
const (
	// maxBody bounds a request that is not the content of a file.
	maxBody = 1 << 20
	// maxAnswer bounds an answer that is not the content of a file.
	maxAnswer = 64 << 20
	// pageEntries bounds one page of a directory.
	pageEntries = 4096
	// maxPath and maxName are those of Linux (path_resolution(7)).
	maxPath = 4095
	maxName = 255
	// maxErrorText bounds the text of one error.
	maxErrorText = 4096
)

// text is a string of any bytes. In JSON it is a string where that keeps every
// byte, and {"base64": "…"} otherwise: a JSON string cannot hold what is not
// UTF-8, and decoders put U+FFFD in its place without a word.
type text string

type encoded struct {
	Base64 *[]byte `json:"base64"`
}

var errReplaced = errors.New(`the string holds U+FFFD, which stands for bytes that were lost; write {"base64": …}`)

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) && !strings.ContainsRune(string(t), utf8.RuneError) {
		return json.Marshal(string(t))
	}
	b := []byte(t)
	return json.Marshal(encoded{Base64: &b})
}

func (t *text) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		if strings.ContainsRune(s, utf8.RuneError) {
			return errReplaced
		}
		*t = text(s)
		return nil
	}
	var e encoded
	if err := decodeStrict(raw, &e); err != nil {
		return err
	}
	if e.Base64 == nil {
		return errors.New(`want a string or {"base64": …}`)
	}
	*t = text(*e.Base64)
	return nil
}

func texts(list []string) []text {
	if list == nil {
		return nil
	}
	out := make([]text, len(list))
	for i, s := range list {
		out[i] = text(s)
	}
	return out
}

func stringsOf(list []text) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = string(t)
	}
	return out
}

// about is what a workspace is.
type about struct {
	Protocol int    `json:"protocol"`
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	Ref      string `json:"ref"`
	Root     text   `json:"root"`
	Real     text   `json:"real,omitempty"`
	Start    bool   `json:"start"`
	Snapshot bool   `json:"snapshots"`
}

// failure is an error as it is sent.
type failure struct {
	Code    workspace.Code `json:"code"`
	Op      string         `json:"op,omitempty"`
	Path    text           `json:"path,omitempty"`
	Message string         `json:"message"`
}

// problem is the body of every answer that is no success.
type problem struct {
	Error failure `json:"error"`
}

// failureOf is err as it is sent.
func failureOf(err error) failure {
	f := failure{Code: workspace.ErrIO, Message: err.Error()}
	var e *workspace.Error
	if errors.As(err, &e) {
		f = failure{Code: e.Code, Op: e.Op, Message: "no reason given"}
		if len(e.Path) <= maxPath {
			f.Path = text(e.Path)
		}
		if e.Err != nil {
			f.Message = e.Err.Error()
		}
	}
	f.Message = strings.ToValidUTF8(f.Message, "?")
	if len(f.Message) > maxErrorText {
		f.Message = strings.ToValidUTF8(f.Message[:maxErrorText], "")
	}
	return f
}

// err is a failure as the caller gets it. A code that is not known is IO: it is
// a failure all the same.
func (f failure) err() error {
	code := f.Code
	if _, known := statuses[code]; !known {
		code = workspace.ErrIO
	}
	message := f.Message
	if len(message) > maxErrorText {
		message = message[:maxErrorText]
	}
	e := &workspace.Error{Code: code, Op: f.Op, Path: string(f.Path), Err: errors.New(message)}
	if len(e.Op) > 32 || len(e.Path) > maxPath {
		e.Op, e.Path = "", ""
	}
	return e
}

// statuses are the HTTP statuses of the codes. The code in the body decides;
// the status is for whatever stands between.
var statuses = map[workspace.Code]int{
	workspace.ErrOutside:         403,
	workspace.ErrNotFound:        404,
	workspace.ErrNotFile:         409,
	workspace.ErrNotDirectory:    409,
	workspace.ErrExists:          409,
	workspace.ErrNotEmpty:        409,
	workspace.ErrTooLarge:        413,
	workspace.ErrInvalidPath:     400,
	workspace.ErrNotStarted:      409,
	workspace.ErrDisposed:        410,
	workspace.ErrUnavailable:     503,
	workspace.ErrAborted:         408,
	workspace.ErrDenied:          403,
	workspace.ErrBusy:            409,
	workspace.ErrUnsupported:     501,
	workspace.ErrIO:              500,
	workspace.ErrInvalidArgument: 400,
	workspace.ErrConflict:        412,
	workspace.ErrCorrupt:         500,
	workspace.ErrTooMany:         429,
}

// fileMessage is a fs.FileInfo as it is sent.
type fileMessage struct {
	Name     text      `json:"name,omitempty"`
	Type     string    `json:"type"`
	Perm     uint32    `json:"perm"` // as st_mode of inode(7) has them, special bits included
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Changed  time.Time `json:"changed"`
	Version  string    `json:"version"`
	ID       string    `json:"id"`
	UID      uint32    `json:"uid"`
	GID      uint32    `json:"gid"`
	Links    uint64    `json:"links"`
}

// types are the names of file types.
var types = [...]struct {
	mode fs.FileMode
	name string
}{
	{0, "file"},
	{fs.ModeDir, "directory"},
	{fs.ModeSymlink, "link"},
	{fs.ModeNamedPipe, "fifo"},
	{fs.ModeSocket, "socket"},
	{fs.ModeDevice, "block device"},
	{fs.ModeDevice | fs.ModeCharDevice, "character device"},
	{fs.ModeIrregular, "other"},
}

// special are the mode bits beside type and permission, with their st_mode.
var special = [...]struct {
	mode fs.FileMode
	st   uint32
}{{fs.ModeSetuid, 0o4000}, {fs.ModeSetgid, 0o2000}, {fs.ModeSticky, 0o1000}}

func typeName(mode fs.FileMode) string {
	for _, t := range types {
		if t.mode == mode.Type() {
			return t.name
		}
	}
	return "other"
}

// sendableTime is t, or the nearest time that RFC 3339 can write: whoever may
// write a file sets its time to any.
func sendableTime(t time.Time) time.Time {
	first, last := time.Unix(-62167219200, 0), time.Unix(253402300799, 0) // the years 0 and 9999
	switch {
	case t.Before(first):
		t = first
	case t.After(last):
		t = last
	}
	return t.UTC()
}

func messageOf(fi fs.FileInfo) fileMessage {
	mode := fi.Mode()
	m := fileMessage{
		Name: text(fi.Name()), Type: typeName(mode), Perm: uint32(mode.Perm()),
		Size: fi.Size(), Modified: sendableTime(fi.ModTime()),
	}
	for _, bit := range special {
		if mode&bit.mode != 0 {
			m.Perm |= bit.st
		}
	}
	if st, ok := fi.Sys().(*workspace.FileStat); ok {
		m.Changed, m.Version, m.ID = sendableTime(st.Changed), st.Version, st.ID
		m.UID, m.GID, m.Links = st.UID, st.GID, st.Links
	}
	return m
}

// info is what the server says of a file, checked.
func (m fileMessage) info(name string) (*fileInfo, error) {
	fi := &fileInfo{name: name, size: m.Size, modified: m.Modified, stat: workspace.FileStat{
		Version: m.Version, ID: m.ID, UID: m.UID, GID: m.GID, Links: m.Links, Changed: m.Changed,
	}}
	known := false
	for _, t := range types {
		if t.name == m.Type {
			fi.mode, known = t.mode|fs.FileMode(m.Perm&0o777), true
		}
	}
	for _, bit := range special {
		if m.Perm&bit.st != 0 {
			fi.mode |= bit.mode
		}
	}
	switch {
	case !known, m.Perm > 0o7777, m.Size < 0:
		return nil, misbehaved("it describes a file as %q with mode %o and %d bytes", m.Type, m.Perm, m.Size)
	case len(m.Version) > maxName, len(m.ID) > maxName, !quotable(m.Version):
		return nil, misbehaved("it sends the version %.80q", m.Version)
	}
	return fi, nil
}

// quotable reports whether a version can stand in an entity tag (RFC 9110,
// section 8.8.3).
func quotable(version string) bool {
	for i := range len(version) {
		if c := version[i]; c <= ' ' || c == '"' || c >= 0x7f {
			return false
		}
	}
	return true
}

// fileInfo is a fs.FileInfo and a fs.DirEntry of what was sent.
type fileInfo struct {
	name     string
	size     int64
	mode     fs.FileMode
	modified time.Time
	stat     workspace.FileStat
}

func (i *fileInfo) Name() string               { return i.name }
func (i *fileInfo) Size() int64                { return i.size }
func (i *fileInfo) Mode() fs.FileMode          { return i.mode }
func (i *fileInfo) ModTime() time.Time         { return i.modified }
func (i *fileInfo) IsDir() bool                { return i.mode.IsDir() }
func (i *fileInfo) Type() fs.FileMode          { return i.mode.Type() }
func (i *fileInfo) Info() (fs.FileInfo, error) { return i, nil }
func (i *fileInfo) String() string             { return fs.FormatDirEntry(i) }

// Sys returns a *workspace.FileStat of the caller's own.
func (i *fileInfo) Sys() any { st := i.stat; return &st }

// listMessage is one page of a directory.
type listMessage struct {
	Entries []fileMessage `json:"entries"`
	More    bool          `json:"more"`
}

// Requests of changes.
type (
	mkdirRequest struct {
		Path    text   `json:"path"`
		Perm    uint32 `json:"perm,omitempty"`
		Parents bool   `json:"parents,omitempty"`
	}
	symlinkRequest struct {
		Path   text `json:"path"`
		Target text `json:"target"`
	}
	removeRequest struct {
		Path      text `json:"path"`
		Recursive bool `json:"recursive,omitempty"`
		Trash     bool `json:"trash,omitempty"`
	}
	renameRequest struct {
		From      text `json:"from"`
		To        text `json:"to"`
		Overwrite bool `json:"overwrite,omitempty"`
	}
	copyRequest struct {
		From      text   `json:"from"`
		To        text   `json:"to"`
		Perm      uint32 `json:"perm,omitempty"`
		Force     bool   `json:"force,omitempty"`
		Exclusive bool   `json:"exclusive,omitempty"`
		Append    bool   `json:"append,omitempty"`
		IfVersion string `json:"ifVersion,omitempty"`
		MaxBytes  int64  `json:"maxBytes,omitempty"`
	}
	chmodRequest struct {
		Path text   `json:"path"`
		Perm uint32 `json:"perm"`
	}
	linkAnswer struct {
		Target text `json:"target"`
	}
)

// validName reports whether s can be the name of one entry of a directory.
func validName(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= maxName && !strings.ContainsAny(s, "/\x00")
}

// misbehaved is the error of a server that does not keep to the protocol.
func misbehaved(format string, args ...any) error {
	return workspace.Errorf(workspace.ErrUnavailable, "", "", "the server does not keep to the protocol: "+format, args...)
}

// base64Strict is base64url without padding, one spelling a value.
var base64Strict = base64.RawURLEncoding.Strict()
