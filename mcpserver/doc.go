// Package mcpserver serves a set of tools by the Model Context Protocol, over
// standard streams and over HTTP, in all its revisions from 2024-11-05 to
// 2026-07-28.
//
//	server := mcpserver.New(set, mcpserver.Options{Version: version})
//	defer server.Close()
//	err := server.ServeStdio(ctx, os.Stdin, os.Stdout)
//
// It is a transport: what a tool does, what may be called and how long a result
// may be is decided in package tools. What is here is how that looks to a
// client: messages, progress, questions to the user, resources, and the checks
// that an HTTP server makes.
//
// Where to look: server.go puts the server together and call.go is one call;
// stdio.go and lines.go are the first way in, http.go and guard.go the second.
// The protocol is that of modelcontextprotocol.io/specification.
package mcpserver
