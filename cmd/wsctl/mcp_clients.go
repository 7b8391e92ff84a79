package main

import (
	"path/filepath"
	"runtime"

	"github.com/wsctl/wsctl/workspace"
)

// Scopes of a client's configuration.
const (
	scopeUser    = "user"
	scopeProject = "project"
)

// mcpClient is a program that speaks MCP, and how it is told of a server.
type mcpClient struct {
	name string
	// userFiles are where its configuration for all projects may be, the
	// first one where there is none yet; projectFiles the same below a
	// project's root.
	userFiles    func(environment) []string
	projectFiles []string
	// toml: its configuration is TOML rather than JSON with comments.
	toml bool
	// path is where its servers are, by name.
	path []string
	// oldPath is where they are when nothing is at path, if not empty.
	oldPath []string
	// fresh are other fields of a file that is made.
	fresh []field
	// entry is a server in its form.
	entry func(command string, args []string) []field
	// here is how it writes the directory that is open; empty: the servers
	// that it starts have that as their own directory.
	here string
}

// field is one field of an object, in order.
type field struct {
	name  string
	value any
}

// mcpClients are the clients that install knows. The forms are those of their
// documentation in November 2026.
func mcpClients() []mcpClient {
	plain := func(command string, args []string) []field {
		return []field{{"command", command}, {"args", args}}
	}
	typed := func(command string, args []string) []field {
		return []field{{"type", "stdio"}, {"command", command}, {"args", args}}
	}
	return []mcpClient{
		{
			// code.claude.com/docs/en/mcp
			name:         "claude-code",
			userFiles:    inHome(".claude.json"),
			projectFiles: []string{".mcp.json"},
			path:         []string{"mcpServers"},
			entry:        typed,
		},
		{
			// learn.chatgpt.com/docs/extend/mcp, github.com/openai/codex docs/config.md
			name:         "codex",
			userFiles:    inHomeOr("CODEX_HOME", ".codex", "config.toml"),
			projectFiles: []string{".codex/config.toml"},
			toml:         true,
			path:         []string{"mcp_servers"},
			entry:        plain,
		},
		{
			// cursor.com/docs/mcp
			name:         "cursor",
			userFiles:    inHome(".cursor/mcp.json"),
			projectFiles: []string{".cursor/mcp.json"},
			path:         []string{"mcpServers"},
			entry:        typed,
			here:         "${workspaceFolder}",
		},
		{
			// code.visualstudio.com/docs/agents/reference/mcp-configuration
			name:         "vscode",
			userFiles:    vscodeFiles,
			projectFiles: []string{".vscode/mcp.json"},
			path:         []string{"servers"},
			entry:        typed,
			here:         "${workspaceFolder}",
		},
		{
			// geminicli.com/docs/tools/mcp-server
			name:         "gemini",
			userFiles:    inHome(".gemini/settings.json"),
			projectFiles: []string{".gemini/settings.json"},
			path:         []string{"mcpServers"},
			entry:        plain,
		},
		{
			// opencode.ai/docs/mcp-servers, and /docs/migrate-v1: version 2
			// has the servers one level lower and reads the old form too.
			name:         "opencode",
			userFiles:    inHomeOr("XDG_CONFIG_HOME", ".config", "opencode/opencode.json", "opencode/opencode.jsonc"),
			projectFiles: []string{"opencode.json", "opencode.jsonc"},
			path:         []string{"mcp", "servers"},
			oldPath:      []string{"mcp"},
			fresh:        []field{{"$schema", "https://opencode.ai/config.json"}},
			entry: func(command string, args []string) []field {
				return []field{{"type", "local"}, {"command", append([]string{command}, args...)}}
			},
		},
		{
			// zed.dev/docs/ai/mcp
			name:         "zed",
			userFiles:    inHomeOr("XDG_CONFIG_HOME", ".config", "zed/settings.json"),
			projectFiles: []string{".zed/settings.json"},
			path:         []string{"context_servers"},
			entry:        plain,
		},
	}
}

// clientNames are the names of all clients.
func clientNames() []string {
	var names []string
	for _, c := range mcpClients() {
		names = append(names, c.name)
	}
	return names
}

// inHome is a file below the user's home.
func inHome(name string) func(environment) []string {
	return inHomeOr("", "", name)
}

// inHomeOr are files below the directory that a variable names, else below one
// in the user's home.
func inHomeOr(variable, dir string, files ...string) func(environment) []string {
	return func(env environment) []string {
		base := env.get(variable)
		if !filepath.IsAbs(base) {
			if base = env.home(); base == "" {
				return nil
			}
			base = filepath.Join(base, dir)
		}
		var all []string
		for _, file := range files {
			all = append(all, filepath.Join(base, filepath.FromSlash(file)))
		}
		return all
	}
}

// home is the user's home directory, empty when it is not known.
func (e environment) home() string {
	name := "HOME"
	if runtime.GOOS == "windows" {
		name = "USERPROFILE"
	}
	if home := e.get(name); filepath.IsAbs(home) {
		return home
	}
	return ""
}

// vscodeFiles is the file of the default profile.
func vscodeFiles(env environment) []string {
	switch runtime.GOOS {
	case "darwin":
		return inHome("Library/Application Support/Code/User/mcp.json")(env)
	case "windows":
		return inHomeOr("APPDATA", "AppData/Roaming", "Code/User/mcp.json")(env)
	}
	return inHomeOr("XDG_CONFIG_HOME", ".config", "Code/User/mcp.json")(env)
}

// client finds one by its name.
func client(name string) (mcpClient, error) {
	for _, c := range mcpClients() {
		if c.name == name {
			return c, nil
		}
	}
	return mcpClient{}, workspace.Errorf(workspace.ErrInvalidArgument, "mcp install", "", "--client is missing")
}
