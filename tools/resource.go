package tools

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wsctl/wsctl/workspace"
)

// MaxResource bounds a file that ReadResource returns, in bytes.
const MaxResource = 4 << 20

// readFileName is the tool whose policy holds for resources.
const readFileName = "read_file"

// ReadResource returns a file of the workspace, whole, for a person or a client
// that attaches it. It may be read when the tool read_file may read it without
// asking anybody; a larger one than MaxResource is TOO_LARGE. The media type is
// text/plain for every text, so that nothing in it acts in a viewer, and that
// of an image for an image.
func (s *Set) ReadResource(ctx context.Context, path string) (Blob, error) {
	r := Request{
		Name: readFileName, Run: s.opts.Run, ID: strings.ToLower(rand.Text()),
		Ask: func(context.Context, Question) (bool, error) {
			return false, errors.New("reading a resource asks nobody; call read_file")
		},
	}
	began := time.Now()
	c := &call{set: s, run: r.Run, id: r.ID, tool: s.Tool(r.Name)}
	blob, err := s.resource(ctx, r, c, path)
	result := &Result{Images: []Blob{blob}}
	if err != nil {
		e := failure(r.Name, err)
		result.Code, err = e.Code, e
	}
	s.auditEnd(r, c, result, time.Since(began))
	return blob, err
}

func (s *Set) resource(ctx context.Context, r Request, c *call, path string) (blob Blob, err error) {
	if c.tool == nil {
		return blob, workspace.Errorf(workspace.ErrDenied, r.Name, path, "files are no resources here: the tool read_file is not enabled")
	}
	if !utf8.ValidString(path) {
		return blob, workspace.Errorf(workspace.ErrInvalidPath, r.Name, path, "a name that is not UTF-8 is no resource")
	}
	if r.Args, err = json.Marshal(readFileInput{Path: path}); err != nil {
		return blob, err
	}
	if c.ws, err = s.workspaceOf(ctx, r.Name); err != nil {
		return blob, err
	}
	if err := s.approve(ctx, r, c, readFileInput{Path: path}.subject()); err != nil {
		return blob, err
	}
	release, err := c.hold(ctx, MaxResource)
	if err != nil {
		return blob, err
	}
	defer release()
	if blob.Data, err = c.ws.ReadFile(ctx, path, MaxResource); err != nil {
		return blob, err
	}
	switch mime := http.DetectContentType(blob.Data); {
	case mime == "image/png" || mime == "image/jpeg" || mime == "image/gif" || mime == "image/webp":
		blob.MIME = mime
	case bytes.IndexByte(blob.Data, 0) >= 0 || !utf8.Valid(blob.Data):
		blob.MIME = "application/octet-stream"
	default:
		blob.MIME = "text/plain"
	}
	return blob, nil
}

// ResourceVersion is a text that changes when the file at path does, empty when
// there is none. It asks no policy: it is for one who has read the resource.
func (s *Set) ResourceVersion(ctx context.Context, path string) string {
	ws, err := s.workspaceOf(ctx, readFileName)
	if err != nil {
		return ""
	}
	fi, err := ws.Stat(ctx, path)
	if err != nil {
		return ""
	}
	return workspace.VersionOf(fi)
}
