//go:build unix

package tools_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

// A question whose answer comes later decides nothing.
func TestPendingQuestionIsNoRefusal(t *testing.T) {
	var decisions []tools.Event
	b := newBench(t, tools.Options{
		RequireApproval: func(string, json.RawMessage) bool { return true },
		Ask:             func(context.Context, tools.Question) (bool, error) { return false, tools.ErrPending },
		Audit: func(e tools.Event) {
			if e.Kind == tools.EventDecision {
				decisions = append(decisions, e)
			}
		},
	})
	b.put("a", "x")
	b.fails("read_file", args{"path": "a"}, workspace.ErrDenied, "the user is being asked")
	if len(decisions) != 1 || decisions[0].Decision != tools.Ask {
		t.Errorf("got %+v", decisions)
	}
}
