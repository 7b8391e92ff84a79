package remote

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/wsctl/wsctl/workspace"
)

// Snapshots are sent as package workspace describes them, but for paths, which
// are any bytes: in these types a field hides the one of the same name in what
// is embedded.
type (
	snapshotMessage struct {
		workspace.Snapshot
		Exclude []text           `json:"exclude"`
		Skipped []skippedMessage `json:"skipped,omitempty"`
		Changed []text           `json:"changed,omitempty"`
	}
	skippedMessage struct {
		workspace.SkippedEntry
		Path text `json:"path"`
	}
	snapshotsMessage struct {
		Snapshots []snapshotMessage `json:"snapshots"`
	}
	saveRequest struct {
		workspace.SaveOptions
		Exclude []text `json:"exclude,omitempty"`
	}
	deleteRequest struct {
		IDs []string `json:"ids"`
	}
	restoreRequest struct {
		workspace.RestoreOptions
		Paths []text `json:"paths,omitempty"`
	}
	restoredMessage struct {
		Snapshot snapshotMessage  `json:"snapshot"`
		DryRun   bool             `json:"dryRun,omitempty"`
		Restored []text           `json:"restored"`
		Deleted  []text           `json:"deleted"`
		Kept     []skippedMessage `json:"kept,omitempty"`
		Backup   string           `json:"backup,omitempty"`
		Busy     bool             `json:"busy,omitempty"`
	}
	diffRequest struct {
		From string `json:"from"`
		To   string `json:"to,omitempty"`
		workspace.DiffOptions
		Paths []text `json:"paths,omitempty"`
	}
	diffMessage struct {
		workspace.Diff
		Changes []changeMessage `json:"changes"`
	}
	changeMessage struct {
		workspace.Change
		Path  text `json:"path"`
		Patch text `json:"patch,omitempty"`
	}
)

// maxPatches bounds the text of one diff, so that its answer has an end.
const maxPatches = 8 << 20

func snapshotMessageOf(s workspace.Snapshot) snapshotMessage {
	return snapshotMessage{s, orEmpty(texts(s.Exclude)), skippedMessages(s.Skipped), texts(s.Changed)}
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func skippedMessages(list []workspace.SkippedEntry) []skippedMessage {
	var out []skippedMessage
	for _, e := range list {
		out = append(out, skippedMessage{e, text(e.Path)})
	}
	return out
}

func (s *Server) serveSnapshots(w http.ResponseWriter, r *http.Request, c *Call) error {
	if _, err := query(r); err != nil {
		return err
	}
	store, err := c.Workspace.Snapshots()
	if err != nil {
		return err
	}
	return reply(w, r, func() (snapshotsMessage, error) {
		list, err := store.List(r.Context())
		m := snapshotsMessage{Snapshots: []snapshotMessage{}}
		for _, one := range list {
			m.Snapshots = append(m.Snapshots, snapshotMessageOf(one))
		}
		return m, err
	})
}

func (s *Server) serveSnapshot(w http.ResponseWriter, r *http.Request, c *Call) error {
	if _, err := query(r); err != nil {
		return err
	}
	store, err := c.Workspace.Snapshots()
	if err != nil {
		return err
	}
	return reply(w, r, func() (snapshotMessage, error) {
		one, err := store.Get(r.Context(), r.PathValue("snapshot"))
		return snapshotMessageOf(one), err
	})
}

// answerJSON answers a request that has a JSON body.
func answerJSON[In, Out any](w http.ResponseWriter, r *http.Request, work func(in In) (Out, error)) error {
	if _, err := query(r); err != nil {
		return err
	}
	var in In
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	return reply(w, r, func() (Out, error) { return work(in) })
}

func (s *Server) serveSave(w http.ResponseWriter, r *http.Request, c *Call) error {
	return answerJSON(w, r, func(in saveRequest) (snapshotMessage, error) {
		store, err := c.Workspace.Snapshots()
		if err != nil {
			return snapshotMessage{}, err
		}
		o := in.SaveOptions
		o.Exclude = stringsOf(in.Exclude)
		one, err := store.Save(r.Context(), o)
		return snapshotMessageOf(one), err
	})
}

func (s *Server) serveDelete(w http.ResponseWriter, r *http.Request, c *Call) error {
	return answerJSON(w, r, func(in deleteRequest) (nothing, error) {
		store, err := c.Workspace.Snapshots()
		if err != nil {
			return nothing{}, err
		}
		return nothing{}, store.Delete(r.Context(), in.IDs...)
	})
}

func (s *Server) serveRestore(w http.ResponseWriter, r *http.Request, c *Call) error {
	return answerJSON(w, r, func(in restoreRequest) (restoredMessage, error) {
		o := in.RestoreOptions
		o.Paths = stringsOf(in.Paths)
		done, err := c.Workspace.Restore(r.Context(), r.PathValue("snapshot"), o)
		return restoredMessage{
			Snapshot: snapshotMessageOf(done.Snapshot), DryRun: done.DryRun, Backup: done.Backup, Busy: done.Busy,
			Restored: orEmpty(texts(done.Restored)), Deleted: orEmpty(texts(done.Deleted)), Kept: skippedMessages(done.Kept),
		}, err
	})
}

func (s *Server) serveDiff(w http.ResponseWriter, r *http.Request, c *Call) error {
	return answerJSON(w, r, func(in diffRequest) (diffMessage, error) {
		store, err := c.Workspace.Snapshots()
		if err != nil {
			return diffMessage{}, err
		}
		o := in.DiffOptions
		o.Paths = stringsOf(in.Paths)
		if o.MaxBytes > maxPatches {
			return diffMessage{}, workspace.Errorf(workspace.ErrTooLarge, "diff", "", "a diff over the wire has at most %d bytes of text", maxPatches)
		}
		d, err := store.Diff(r.Context(), in.From, in.To, o)
		m := diffMessage{d, []changeMessage{}}
		for _, c := range d.Changes {
			m.Changes = append(m.Changes, changeMessage{c, text(c.Path), text(c.Patch)})
		}
		return m, err
	})
}

// sendable reports whether JSON keeps a string.
func sendable(s string) bool { return utf8.ValidString(s) }

// validPath reports whether s can be the path of an entry below a root.
func validPath(s string) bool {
	if s == "." {
		return true
	}
	if len(s) > maxPath {
		return false
	}
	for part := range strings.SplitSeq(s, "/") {
		if !validName(part) {
			return false
		}
	}
	return true
}
