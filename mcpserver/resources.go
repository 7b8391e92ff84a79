package mcpserver

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addResources offers the files of the workspace as resources. They are not
// listed, which would be the tree: a client names one by the template.
func (s *Server) addResources() {
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
		Name:        "file",
		Title:       "A file of the workspace",
		Description: "A file, whole, by its path relative to the root of the workspace. Texts come as text/plain, images as images, anything else as bytes. Subscribe to hear of changes.",
		URITemplate: fileTemplate,
	}, s.readResource)
}

func (s *Server) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	uri := req.Params.URI
	path, err := pathOf(uri)
	if err != nil {
		return nil, resourceError(uri, err)
	}
	blob, err := s.set.ReadResource(ctx, path)
	if err != nil {
		return nil, resourceError(uri, err)
	}
	content := &mcp.ResourceContents{URI: uri, MIMEType: blob.MIME}
	if strings.HasPrefix(blob.MIME, "text/") && len(blob.Data) > 0 {
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
