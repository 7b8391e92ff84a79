package main

import (
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/tools"
)

// listedTool is a tool as JSON.
type listedTool struct {
	Name        string             `json:"name"`
	Title       string             `json:"title"`
	Description string             `json:"description"`
	ReadOnly    bool               `json:"readOnly"`
	Destructive bool               `json:"destructive"`
	Idempotent  bool               `json:"idempotent"`
	OpenWorld   bool               `json:"openWorld"`
	Input       *jsonschema.Schema `json:"inputSchema"`
	Output      *jsonschema.Schema `json:"outputSchema"`
}

func newToolLsCommand(a *app) *cobra.Command {
	output := choice{value: outputText, words: []string{outputText, outputJSON}}
	cmd := &cobra.Command{
		Use:     "ls [flags]",
		Short:   "List the agent's tools",
		Long:    "List the tools that an agent has; with --output json also their descriptions and\nthe JSON schemas of their arguments and structured results.",
		Example: "  wsctl tool ls\n  wsctl tool ls --output json | jq '.tools[] | select(.name == \"grep\")'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.listTools(output.value)
		},
	}
	addChoice(cmd, &output, "output", "what to print: a table, or a JSON object with the schemas")
	return cmd
}

func (a *app) listTools(form string) error {
	set, err := tools.NewSet(nil, tools.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = set.Close() }()
	var rows [][]string
	list := struct {
		Tools []listedTool `json:"tools"`
	}{}
	for _, t := range set.Tools() {
		may := "changes"
		switch {
		case t.Hints.ReadOnly:
			may = "reads"
		case t.Hints.OpenWorld:
			may = "runs"
		}
		rows = append(rows, []string{t.Name, may, strings.ToLower(t.Title[:1]) + t.Title[1:]})
		list.Tools = append(list.Tools, listedTool{
			t.Name, t.Title, t.Description,
			t.Hints.ReadOnly, t.Hints.Destructive, t.Hints.Idempotent, t.Hints.OpenWorld, t.Input, t.Output,
		})
	}
	if form == outputJSON {
		return a.ui.object(list)
	}
	return a.ui.table([]string{"NAME", "DOES", "WHAT"}, rows)
}
