package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wsctl/wsctl/tools"
)

// describe is a tool as a client sees it.
func describe(t *tools.Tool) *mcp.Tool {
	return &mcp.Tool{
		Name:         t.Name,
		Title:        t.Title,
		Description:  t.Description,
		InputSchema:  t.Input,
		OutputSchema: t.Output,
		Annotations: &mcp.ToolAnnotations{
			Title:           t.Title,
			ReadOnlyHint:    t.Hints.ReadOnly,
			DestructiveHint: &t.Hints.Destructive,
			IdempotentHint:  t.Hints.Idempotent,
			OpenWorldHint:   &t.Hints.OpenWorld,
		},
	}
}

// call is one call of a tool. Every failure of the tool is a result that the
// model reads; an error is one of the protocol.
func (s *Server) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	defer s.calls.begin(req.Session.ID(), cancel)()

	live := newProgress(ctx, req)
	user := &question{server: s, req: req}
	result := s.set.Call(ctx, tools.Request{
		Name:     req.Params.Name,
		Args:     arguments(req.Params.Arguments),
		Progress: live.output,
		Ask:      user.ask,
	})
	live.close()
	if user.asked != nil {
		return user.asked, nil
	}
	if !s.set.Tool(req.Params.Name).Hints.ReadOnly {
		s.watch.changed()
	}
	return reply(result), nil
}

// arguments takes null for what it stands for in many clients: no arguments.
func arguments(raw json.RawMessage) json.RawMessage {
	if string(bytes.TrimSpace(raw)) == "null" {
		return nil
	}
	return raw
}

// reply is a result in the protocol's form.
func reply(r *tools.Result) *mcp.CallToolResult {
	out := &mcp.CallToolResult{IsError: r.IsError, Content: []mcp.Content{&mcp.TextContent{Text: r.Text}}}
	for _, image := range r.Images {
		out.Content = append(out.Content, &mcp.ImageContent{MIMEType: image.MIME, Data: image.Data})
	}
	if r.Structured != nil {
		out.StructuredContent = r.Structured
	}
	return out
}

func (s *Server) unknownTool(name string) string {
	var names []string
	for _, t := range s.set.Tools() {
		names = append(names, t.Name)
	}
	return "there is no tool " + strconv.QuoteToASCII(clip(name, 80)) + "; the tools are " + strings.Join(names, ", ")
}

// clip is at most n characters of s.
func clip(s string, n int) string {
	head, rest := cut(s, n)
	if rest == "" {
		return s
	}
	return head + "…"
}

// cut splits s after n characters.
func cut(s string, n int) (head, rest string) {
	for i := range s {
		if n == 0 {
			return s[:i], s[i:]
		}
		n--
	}
	return s, ""
}
