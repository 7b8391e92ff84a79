package remote

import (
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/wsctl/wsctl/workspace"
)

// Headers of the protocol beside those of HTTP.
const (
	// headerFile describes the file that is sent (see description.go).
	headerFile = "Wsctl-File"
	// headerDigest proves that a body is whole (RFC 9530).
	headerDigest = "Content-Digest"
)

// transferSize is the size of the buffers that content passes through.
const transferSize = 64 << 10

var transfers = sync.Pool{New: func() any { return new([transferSize]byte) }}

// tag is a version as an entity tag.
func tag(version string) string { return `"` + version + `"` }

// versionIn takes the version out of an entity tag; "" when there is none.
func versionIn(header string) (string, error) {
	if header == "" {
		return "", nil
	}
	v, ok := strings.CutPrefix(header, `"`)
	v, ok2 := strings.CutSuffix(v, `"`)
	if !ok || !ok2 || v == "" || !quotable(v) {
		return "", badRequest("If-Match takes one strong entity tag")
	}
	return v, nil
}

// permission is a mode as a caller asks for it: special bits stay in it, to be
// refused.
func permission(perm uint32) fs.FileMode {
	mode := fs.FileMode(perm & 0o777)
	for _, bit := range special {
		if perm&bit.st != 0 {
			mode |= bit.mode
		}
	}
	if perm > 0o7777 {
		mode |= fs.ModeIrregular
	}
	return mode
}

func (s *Server) serveStat(w http.ResponseWriter, r *http.Request, c *Call) error {
	q, err := query(r, "path", "follow")
	if err != nil {
		return err
	}
	name, err := c.Path(text(q.Get("path")))
	if err != nil {
		return err
	}
	stat := c.Workspace.Stat
	switch q.Get("follow") {
	case "", "true":
	case "false":
		stat = c.Workspace.Lstat
	default:
		return badRequest("follow is true or false")
	}
	return reply(w, r, func() (fileMessage, error) {
		fi, err := stat(r.Context(), name)
		if err != nil {
			return fileMessage{}, err
		}
		return messageOf(fi), nil
	})
}

func (s *Server) serveReadLink(w http.ResponseWriter, r *http.Request, c *Call) error {
	q, err := query(r, "path")
	if err != nil {
		return err
	}
	name, err := c.Path(text(q.Get("path")))
	if err != nil {
		return err
	}
	return reply(w, r, func() (linkAnswer, error) {
		target, err := c.Workspace.ReadLink(r.Context(), name)
		return linkAnswer{text(target)}, err
	})
}

func (s *Server) serveList(w http.ResponseWriter, r *http.Request, c *Call) error {
	q, err := query(r, "path", "after", "limit")
	if err != nil {
		return err
	}
	name, err := c.Path(text(q.Get("path")))
	if err != nil {
		return err
	}
	o := workspace.ListOptions{After: q.Get("after"), Limit: pageEntries}
	if v := q.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return badRequest("limit is a number of entries")
		}
		if n > 0 {
			o.Limit = min(n, pageEntries)
		}
	}
	return reply(w, r, func() (listMessage, error) {
		list, err := c.Workspace.ReadDir(r.Context(), name, o)
		if err != nil {
			return listMessage{}, err
		}
		m := listMessage{Entries: make([]fileMessage, 0, len(list.Entries)), More: list.More}
		for _, e := range list.Entries {
			fi, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return listMessage{}, err
			}
			m.Entries = append(m.Entries, messageOf(fi))
		}
		return m, nil
	})
}

// change answers a request that changes something and says nothing.
func change[In any](w http.ResponseWriter, r *http.Request, do func(in In) error) error {
	return answerJSON(w, r, func(in In) (nothing, error) { return nothing{}, do(in) })
}

func (s *Server) serveMkdir(w http.ResponseWriter, r *http.Request, c *Call) error {
	return change(w, r, func(in mkdirRequest) error {
		name, err := c.Path(in.Path)
		if err != nil {
			return err
		}
		return c.Workspace.Mkdir(r.Context(), name, workspace.MkdirOptions{Perm: permission(in.Perm), Parents: in.Parents})
	})
}

func (s *Server) serveSymlink(w http.ResponseWriter, r *http.Request, c *Call) error {
	return change(w, r, func(in symlinkRequest) error {
		name, err := c.Path(in.Path)
		if err != nil {
			return err
		}
		return c.Workspace.Symlink(r.Context(), string(in.Target), name)
	})
}

func (s *Server) serveRemove(w http.ResponseWriter, r *http.Request, c *Call) error {
	return change(w, r, func(in removeRequest) error {
		name, err := c.Path(in.Path)
		if err != nil {
			return err
		}
		return c.Workspace.Remove(r.Context(), name, workspace.RemoveOptions{Recursive: in.Recursive, Trash: in.Trash})
	})
}

func (s *Server) serveRename(w http.ResponseWriter, r *http.Request, c *Call) error {
	return change(w, r, func(in renameRequest) error {
		from, to, err := c.paths(in.From, in.To)
		if err != nil {
			return err
		}
		return c.Workspace.Rename(r.Context(), from, to, workspace.RenameOptions{Overwrite: in.Overwrite})
	})
}

func (c *Call) paths(from, to text) (string, string, error) {
	a, err := c.Path(from)
	if err != nil {
		return "", "", err
	}
	b, err := c.Path(to)
	return a, b, err
}

func (s *Server) serveCopy(w http.ResponseWriter, r *http.Request, c *Call) error {
	return answerJSON(w, r, func(in copyRequest) (fileMessage, error) {
		from, to, err := c.paths(in.From, in.To)
		if err != nil {
			return fileMessage{}, err
		}
		fi, err := c.Workspace.Copy(r.Context(), from, to, workspace.WriteOptions{
			Perm: permission(in.Perm), Force: in.Force, Exclusive: in.Exclusive,
			Append: in.Append, IfVersion: in.IfVersion, MaxBytes: in.MaxBytes,
		})
		if err != nil {
			return fileMessage{}, err
		}
		return messageOf(fi), nil
	})
}

func (s *Server) serveChmod(w http.ResponseWriter, r *http.Request, c *Call) error {
	return change(w, r, func(in chmodRequest) error {
		name, err := c.Path(in.Path)
		if err != nil {
			return err
		}
		return c.Workspace.Chmod(r.Context(), name, permission(in.Perm))
	})
}
