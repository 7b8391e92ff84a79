// Mcpinside is an MCP server on its standard streams, as a workspace may hold one:
// its one tool tells in which directory and process it runs, and repeats a text.
package main

import (
	"context"
	"log"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type question struct {
	Text string `json:"text"`
}

type answer struct {
	Text string `json:"text"`
	Dir  string `json:"dir"`
	PID  int    `json:"pid"`
}

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "mcpinside", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "repeat", Description: "Repeats a text."},
		func(_ context.Context, _ *mcp.CallToolRequest, q question) (*mcp.CallToolResult, answer, error) {
			dir, err := os.Getwd()
			return nil, answer{Text: q.Text, Dir: dir, PID: os.Getpid()}, err
		})
	log.Print("serving")
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}
