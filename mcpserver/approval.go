package mcpserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wsctl/wsctl/tools"
)

const (
	// questionKey names the one question of a call among its input requests.
	questionKey = "approval"
	// questionLife is how long a user may think.
	questionLife = 15 * time.Minute
	// maxQuestions bounds those that are open at once.
	maxQuestions = 256
	// maxShown bounds each argument that a question shows, in characters.
	maxShown = 2000
)

// question asks the user about one call. The client is told of the question as
// the result of the call, and makes the call again with the answer (multi round
// trip requests of 2026-07-28); for clients of older revisions the SDK does both,
// with a request for elicitation.
type question struct {
	server *Server
	req    *mcp.CallToolRequest
	// asked is the result that asks; nil: nobody is asked.
	asked *mcp.CallToolResult
}

// ask implements tools.Asker.
func (q *question) ask(_ context.Context, about tools.Question) (bool, error) {
	params := q.req.Params
	if answer, ok := params.InputResponses[questionKey].(*mcp.ElicitResult); ok && q.server.questions.take(params) {
		return answer.Action == "accept", nil
	}
	if !canAsk(q.req.ClientCapabilities()) {
		why := "this client cannot ask the user"
		if how := q.server.howToAllow; how != "" {
			why += "; the user can allow it beforehand: " + how
		}
		return false, errors.New(why)
	}
	state, err := q.server.questions.open(params)
	if err != nil {
		return false, err
	}
	q.asked = &mcp.CallToolResult{
		RequestState: state,
		InputRequests: mcp.InputRequestMap{questionKey: &mcp.ElicitParams{
			Mode:    "form",
			Message: wording(about),
			// Accepting and declining is all there is to fill in.
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
		}},
	}
	return false, tools.ErrPending
}

func canAsk(c *mcp.ClientCapabilities) bool {
	// A client that names no form of elicitation knows the first one only.
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// wording is what the user reads. What the model wrote is quoted, one line a
// value, and indented: to a client that shows Markdown it is a block of code,
// which loads and hides nothing.
func wording(q tools.Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "May the agent call %s in %s? (%s)\n\n", q.Tool.Name, strconv.Quote(q.Root), strings.Map(oneLine, q.Reason))
	var args map[string]any
	if err := json.Unmarshal(q.Args, &args); err != nil {
		args = nil
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		shown := ""
		if text, ok := args[name].(string); ok {
			shown = text
		} else if raw, err := json.Marshal(args[name]); err == nil {
			shown = string(raw)
		}
		more := ""
		shown, rest := cut(shown, maxShown)
		if rest != "" {
			more = fmt.Sprintf(" (and %d more characters)", utf8.RuneCountInString(rest))
		}
		fmt.Fprintf(&b, "    %s: %s%s\n", name, strconv.Quote(shown), more)
	}
	return b.String()
}

func oneLine(r rune) rune {
	if strconv.IsPrint(r) {
		return r
	}
	return ' '
}

// questions are those that a user has been asked and that are not answered yet.
// An answer counts once, and for the call that was asked about only.
type questions struct {
	mu   sync.Mutex
	list map[string]openQuestion // by state
}

type openQuestion struct {
	call    [sha256.Size]byte
	expires time.Time
}

// fingerprint tells calls apart.
func fingerprint(p *mcp.CallToolParamsRaw) [sha256.Size]byte {
	return sha256.Sum256([]byte(p.Name + "\x00" + string(p.Arguments)))
}

// open notes a question and returns the state that its answer carries.
func (q *questions) open(p *mcp.CallToolParamsRaw) (state string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(q.list, func(_ string, o openQuestion) bool { return now.After(o.expires) })
	if len(q.list) >= maxQuestions {
		return "", errors.New("too many questions wait for an answer; have those answered first")
	}
	if q.list == nil {
		q.list = map[string]openQuestion{}
	}
	state = rand.Text()
	q.list[state] = openQuestion{fingerprint(p), now.Add(questionLife)}
	return state, nil
}

// take reports whether p answers an open question about the same call, which
// it ends.
func (q *questions) take(p *mcp.CallToolParamsRaw) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	o, ok := q.list[p.RequestState]
	delete(q.list, p.RequestState)
	return ok && o.call == fingerprint(p) && time.Now().Before(o.expires)
}
