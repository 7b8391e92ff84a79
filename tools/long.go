package tools

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/wsctl/wsctl/workspace"
)

// cutField is the field of a structured result that tells of a cut.
const cutField = "cut"

// cut tells that a result was too long.
type cut struct {
	Characters int    `json:"characters" jsonschema:"length of the whole result"`
	Path       string `json:"path,omitempty" jsonschema:"file with the whole result; page through it with read_file"`
	Warning    string `json:"warning,omitempty" jsonschema:"why the whole result could not be saved"`
}

// maxNamePart bounds each part of a saved result's name, in bytes.
const maxNamePart = 100

// ToolResultPath is where the long result of a call is saved, relative to the
// root. Parts that cannot be a file's name are changed and get a short hash of
// what they were.
func ToolResultPath(run, id string) string {
	return workspace.ResultsDir + "/" + safeName(run) + "/" + resultFile(id)
}

func resultFile(id string) string { return safeName(id) + ".txt" }

// safeName makes an id a file's name. Two ids never share one, but by a chance
// of 1 in 2^32.
func safeName(id string) string {
	safe := []byte(id)
	for i, c := range safe {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		digit := c >= '0' && c <= '9'
		if !letter && !digit && c != '_' && c != '-' && (c != '.' || i == 0) {
			safe[i] = '_'
		}
	}
	if len(safe) > maxNamePart {
		safe = safe[:maxNamePart]
	}
	if id != "" && string(safe) == id {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return string(safe) + "-" + hex.EncodeToString(sum[:4])
}

// save keeps the whole of the call's result and returns its path.
func (c *call) save(ctx context.Context, r io.Reader, limit int64) (string, error) {
	// What a command wrote before it was aborted is still worth keeping.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := c.ws.SaveResult(ctx, safeName(c.run), resultFile(c.id), r, limit); err != nil {
		return "", err
	}
	c.set.prune(ctx, c.ws)
	return ToolResultPath(c.run, c.id), nil
}

// pruneEvery is the least time between two looks for old results.
const pruneEvery = time.Hour

// pruning remembers when old results were looked for.
type pruning struct {
	mu   sync.Mutex
	last map[string]time.Time // by root
}

// prune deletes old results, now and then.
func (s *Set) prune(ctx context.Context, ws *workspace.Workspace) {
	keep := s.opts.Limits.KeepResults
	if keep < 0 || !s.pruning.due(ws.Root(), time.Now()) {
		return
	}
	if _, err := ws.PruneResults(ctx, keep); err != nil {
		s.opts.Logger.Warn("old results are not removed", "root", ws.Root(), "error", err)
	}
}

func (p *pruning) due(root string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.last[root]) < pruneEvery {
		return false
	}
	maps.DeleteFunc(p.last, func(_ string, t time.Time) bool { return now.Sub(t) >= pruneEvery })
	if p.last == nil {
		p.last = map[string]time.Time{}
	}
	p.last[root] = now
	return true
}

// result makes the Result of what a tool returned. It is bounded, whatever the
// tool did.
func (c *call) result(ctx context.Context, out output, err error) *Result {
	r := &Result{Path: c.saved}
	if err != nil {
		name := ""
		if c.tool != nil {
			name = c.tool.Name
		}
		e := failure(name, err)
		r.IsError, r.Code, r.Err, r.Text = true, e.Code, e, e.Error()
	}
	if out == nil {
		r.Text = strings.ToValidUTF8(r.Text, "\uFFFD")
		return r
	}
	text, replaced := valid([]byte(out.text()))
	if replaced > 0 {
		text += "\n[" + saidReplaced(replaced) + "]"
	}
	if r.Text != "" {
		text = r.Text + "\n" + text
	}
	r.Text = text
	if p, ok := out.(pictured); ok {
		r.Images = p.images()
	}
	if !c.set.opts.TextOnly {
		r.Structured = marshal(out)
	}
	limit := c.tool.MaxResultLength
	if limit == 0 {
		limit = c.set.opts.Limits.MaxResultLength
	}
	if n := utf8.RuneCountInString(r.Text) + utf8.RuneCount(r.Structured); n > limit {
		c.shorten(ctx, r, limit)
	}
	return r
}

// shorten saves a result that is too long and leaves a preview of it.
func (c *call) shorten(ctx context.Context, r *Result, limit int) {
	told := cut{Characters: utf8.RuneCountInString(r.Text), Path: c.saved}
	if told.Path == "" {
		var err error
		if told.Path, err = c.save(ctx, strings.NewReader(r.Text), 0); err != nil {
			told.Warning = clip(failure(c.tool.Name, err).Error(), 300)
		}
		r.Path = told.Path
	}
	room := limit
	if r.Structured != nil {
		room = limit / 2
		r.Structured = shortenStructured(r.Structured, told, room)
	}
	note := fmt.Sprintf("[This result has %d characters and is cut. The whole is in %s: read it in parts with read_file (offset and limit). Commands cannot see that file.]", told.Characters, told.Path)
	if told.Warning != "" {
		note = fmt.Sprintf("[This result has %d characters and is cut; the rest is lost, because it could not be saved: %s. Ask for less at a time.]", told.Characters, told.Warning)
	}
	r.Text = preview(r.Text, note, room)
}

// preview is the head and the tail of a text around a note, about room
// characters in all, and never more.
func preview(text, note string, room int) string {
	room -= utf8.RuneCountInString(note) + 2
	if room <= 0 {
		return note
	}
	runes := []rune(text)
	if len(runes) <= room {
		return text + "\n" + note
	}
	// What a result says of itself stands first.
	head, tail := room-room/4, room/4
	return string(runes[:head]) + "\n" + note + "\n" + string(runes[len(runes)-tail:])
}

// shortenStructured cuts the longest strings and lists of a JSON object until it
// has at most room characters, or nothing is left to cut: its shape stays.
func shortenStructured(object json.RawMessage, told cut, room int) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(object))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		panic(err)
	}
	short, ok := fit(v, room-jsonLength(told)-len(cutField)-4).(map[string]any)
	if !ok {
		panic("tools: an output is no object")
	}
	short[cutField] = told
	return marshal(short)
}

// marshal is v as JSON, without the escapes that HTML needs. It takes outputs
// and what was JSON before, which cannot fail.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func jsonLength(v any) int { return utf8.RuneCount(marshal(v)) }

// fit returns v, cut to room characters of JSON: a string keeps its head, a
// list its first entries, and an object shares the room among its fields, the
// small ones first.
func fit(v any, room int) any {
	if jsonLength(v) <= room {
		return v
	}
	switch v := v.(type) {
	case string:
		return fitString(v, room-len(`""`))
	case []any:
		room -= len("[]")
		kept := []any{}
		for _, e := range v {
			if room -= jsonLength(e) + len(","); room < 0 {
				break
			}
			kept = append(kept, e)
		}
		return kept
	case map[string]any:
		room -= len("{}")
		keys := slices.SortedFunc(maps.Keys(v), func(a, b string) int {
			return cmp.Or(cmp.Compare(jsonLength(v[a]), jsonLength(v[b])), strings.Compare(a, b))
		})
		short := map[string]any{}
		for i, key := range keys {
			name := jsonLength(key) + len(":,")
			short[key] = fit(v[key], room/(len(keys)-i)-name)
			room -= jsonLength(short[key]) + name
		}
		return short
	}
	return v
}

// fitString is the head of s that has at most room characters in JSON.
func fitString(s string, room int) string {
	for i, r := range s {
		if room -= jsonCost(r); room < 0 {
			return s[:i]
		}
	}
	return s
}

// jsonCost is how many characters r takes in a string that marshal writes.
func jsonCost(r rune) int {
	switch {
	case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t' || r == '\b' || r == '\f':
		return len(`\n`)
	case r < ' ' || r == '\u2028' || r == '\u2029':
		return len(`\u0000`)
	}
	return 1
}
