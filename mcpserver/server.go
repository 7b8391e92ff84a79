package mcpserver

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wsctl/wsctl/tools"
)

// Options are what a server says of itself. The zero value is good.
type Options struct {
	// Version is that of the program; empty: "unknown".
	Version string
	// HowToAllow tells a user how to allow calls beforehand, in one line,
	// where the client cannot ask; it may be empty.
	HowToAllow string
	// Logger is told what no answer says; nil: silent.
	Logger *slog.Logger
}

// Server serves one set of tools to any number of clients. Its methods are safe
// for concurrent use.
type Server struct {
	set        *tools.Set
	howToAllow string
	log        *slog.Logger
	mcp        *mcp.Server
	watch      *watch
	questions  questions
	calls      calls
	life       context.Context // ends with Close, and every call with it
	end        context.CancelFunc
}

// New returns a server over set, which stays the caller's: the server closes
// neither it nor its workspace.
func New(set *tools.Set, o Options) *Server {
	if o.Version == "" {
		o.Version = "unknown"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{set: set, howToAllow: o.HowToAllow, log: o.Logger}
	s.life, s.end = context.WithCancel(context.Background())
	s.watch = newWatch(s)
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "wsctl", Title: "wsctl sandbox", Version: o.Version}, &mcp.ServerOptions{
		Instructions: Instructions(set),
		Logger:       o.Logger,
		// Nothing comes or goes while the server lives, so no list changes.
		Capabilities: &mcp.ServerCapabilities{
			Tools:     &mcp.ToolCapabilities{},
			Resources: &mcp.ResourceCapabilities{Subscribe: true},
			Prompts:   &mcp.PromptCapabilities{},
		},
		SubscribeHandler:   s.watch.subscribe,
		UnsubscribeHandler: s.watch.unsubscribe,
	})
	for _, t := range set.Tools() {
		s.mcp.AddTool(describe(t), s.call)
	}
	s.addResources()
	s.addPrompts()
	s.mcp.AddReceivingMiddleware(s.guarded)
	return s
}

// Close ends every call that is under way. Sessions end with what carries them.
func (s *Server) Close() { s.end() }

// guarded keeps the process alive when the handling of one message panics, and
// says which tools there are when one is asked for that is not there.
func (s *Server) guarded(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("the handling of a message panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the server failed by a fault of its own; its log tells more"}
			}
		}()
		if call, ok := req.(*mcp.CallToolRequest); ok && s.set.Tool(call.Params.Name) == nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: s.unknownTool(call.Params.Name)}
		}
		return next(ctx, method, req)
	}
}
