package mcpserver

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addResources offers the files of the workspace and its kept states as
// resources. Files are not listed, which would be the tree: a client names one by
// the template.
func (s *Server) addResources() {
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
		Name:        "file",
		Title:       "A file of the workspace",
		Description: "A file, whole, by its path relative to the root of the workspace. Texts come as text/plain, images as images, anything else as bytes. Subscribe to hear of changes.",
		URITemplate: fileTemplate,
	}, s.readResource)
	if s.set.Tool("snapshot_list") == nil {
		return
	}
	s.mcp.AddResource(&mcp.Resource{
		Name: "snapshots", Title: "Kept states of the workspace", URI: snapshotsURI, MIMEType: "application/json",
		Description: "The kept states of the files, the newest first. Subscribe to hear of new ones.",
	}, s.readResource)
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
		Name:        "snapshot",
		Title:       "What has changed since a kept state",
		Description: "The differences between a kept state, by its id or latest, and the files as they are now.",
		URITemplate: snapshotTemplate,
		MIMEType:    "application/json",
	}, s.readResource)
}

func (s *Server) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	uri := req.Params.URI
	named, err := resourceOf(uri)
	if err != nil {
		return nil, resourceError(uri, err)
	}
	blob, err := named.read(ctx, s.set)
	if err != nil {
		return nil, resourceError(uri, err)
	}
	content := &mcp.ResourceContents{URI: uri, MIMEType: blob.MIME}
	if (strings.HasPrefix(blob.MIME, "text/") || blob.MIME == "application/json") && len(blob.Data) > 0 {
		content.Text = string(blob.Data)
	} else {
		// Also of an empty file: one of the two has to be there.
		content.Blob = append([]byte{}, blob.Data...)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{content}}, nil
}

// resourceError is a failure of a resource as the protocol has it.
func resourceError(uri string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return mcp.ResourceNotFoundError(uri)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
}
