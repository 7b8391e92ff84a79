package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wsctl/wsctl/workspace"
)

// maxDepth is how deep arguments may be nested.
const maxDepth = 16

// decode checks args against the schema and puts them in the struct that in
// points to. Every error is INVALID_ARGUMENT and names the field. Package json
// alone would take unknown fields, other cases of a name, null for anything, a
// name twice, and U+FFFD for what is no character.
func decode(tool string, s *jsonschema.Schema, args json.RawMessage, in any) error {
	fail := func(err error) error {
		return workspace.Errorf(workspace.ErrInvalidArgument, tool, "", "%w", err)
	}
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	p := &argumentParser{raw: args, dec: json.NewDecoder(bytes.NewReader(args))}
	p.dec.UseNumber()
	v, err := p.value("", 0)
	if err != nil {
		return fail(err)
	}
	if _, err := p.dec.Token(); err != io.EOF {
		return fail(fmt.Errorf("the arguments go on after their end; give one JSON object"))
	}
	c := &argumentChecker{}
	if v, err = c.check(s, "", v); err != nil {
		return fail(err)
	}
	if c.changed {
		if args, err = json.Marshal(v); err != nil {
			return fail(err)
		}
	}
	if err := json.Unmarshal(args, in); err != nil {
		return fail(err)
	}
	return nil
}

// argumentParser reads JSON as json.Unmarshal does, and refuses what that
// changes without a word.
type argumentParser struct {
	raw []byte
	dec *json.Decoder
}

func (p *argumentParser) token(field string) (json.Token, error) {
	begin := p.dec.InputOffset()
	t, err := p.dec.Token()
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("the arguments end too early; give one whole JSON object")
	}
	if err != nil {
		return nil, fmt.Errorf("the arguments are not JSON at byte %d: %w", p.dec.InputOffset(), err)
	}
	if _, ok := t.(string); ok {
		if what := notText(p.raw[begin:p.dec.InputOffset()]); what != "" {
			return nil, fmt.Errorf("%s: %s", orArguments(field), what)
		}
	}
	return t, nil
}

func (p *argumentParser) value(field string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%s: nested too deep", orArguments(field))
	}
	t, err := p.token(field)
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		return p.object(field, depth)
	case json.Delim('['):
		list := []any{}
		for p.dec.More() {
			v, err := p.value(fmt.Sprintf("%s[%d]", field, len(list)), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := p.token(field)
		return list, err
	}
	return t, nil
}

func (p *argumentParser) object(field string, depth int) (any, error) {
	object := map[string]any{}
	for p.dec.More() {
		t, err := p.token(field)
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("%s: a name of a field must be a string", orArguments(field))
		}
		below := join(field, key)
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("%s: given twice; give it once", below)
		}
		if object[key], err = p.value(below, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := p.token(field)
	return object, err
}

// notText tells what is no character in the JSON of a string; empty: nothing.
func notText(raw []byte) string {
	if !utf8.Valid(raw) {
		return "holds bytes that are not UTF-8; send text as UTF-8"
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if i++; i >= len(raw) || raw[i] != 'u' {
			continue
		}
		switch first := surrogate(raw[i+1:]); {
		case first == lowSurrogate:
			return "holds half a surrogate pair, which is no character"
		case first == highSurrogate:
			if !bytes.HasPrefix(raw[i+5:], []byte(`\u`)) || surrogate(raw[i+7:]) != lowSurrogate {
				return "holds half a surrogate pair, which is no character"
			}
			i += 6
		}
		i += 4
	}
	return ""
}

const (
	noSurrogate = iota
	highSurrogate
	lowSurrogate
)

func surrogate(hex []byte) int {
	if len(hex) < 4 {
		return noSurrogate
	}
	n, err := strconv.ParseUint(string(hex[:4]), 16, 16)
	switch {
	case err != nil || n < 0xd800 || n > 0xdfff:
		return noSurrogate
	case n < 0xdc00:
		return highSurrogate
	}
	return lowSurrogate
}

// argumentChecker compares values with a schema made by inputSchema.
type argumentChecker struct {
	// changed: a number was written in a way that Go's integers do not take.
	changed bool
}

func (c *argumentChecker) check(s *jsonschema.Schema, field string, v any) (any, error) {
	if s.Type == "" {
		return v, nil
	}
	if got := typeName(v); got != s.Type && (s.Type != "integer" || got != "number") {
		if v == nil {
			return nil, fmt.Errorf("%s: must be %s, not null; leave out what is not needed", orArguments(field), article(s.Type))
		}
		return nil, fmt.Errorf("%s: must be %s, not %s%s", orArguments(field), article(s.Type), article(got), quoted(v))
	}
	switch v := v.(type) {
	case json.Number:
		return c.number(s, field, v)
	case string:
		if len(s.Enum) > 0 && !slices.Contains(s.Enum, any(v)) {
			return nil, fmt.Errorf("%s: must be one of %s, not %q", field, words(s.Enum), clip(v, 60))
		}
	case []any:
		if s.MinItems != nil && len(v) < *s.MinItems {
			return nil, fmt.Errorf("%s: must have at least %d entries, not %d", field, *s.MinItems, len(v))
		}
		if s.MaxItems != nil && len(v) > *s.MaxItems {
			return nil, fmt.Errorf("%s: must have at most %d entries, not %d", field, *s.MaxItems, len(v))
		}
		for i := range v {
			var err error
			if v[i], err = c.check(s.Items, fmt.Sprintf("%s[%d]", field, i), v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		return v, c.object(s, field, v)
	}
	return v, nil
}

func (c *argumentChecker) object(s *jsonschema.Schema, field string, v map[string]any) error {
	keys := make([]string, 0, len(v))
	for key := range v {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		below := s.Properties[key]
		if below == nil && len(s.Properties) == 0 && s.AdditionalProperties != nil {
			// A map: any name.
			below = s.AdditionalProperties
		}
		if below == nil {
			return fmt.Errorf("%s: there is no such field; the fields are %s", clip(join(field, key), 80), strings.Join(s.PropertyOrder, ", "))
		}
		var err error
		if v[key], err = c.check(below, join(field, key), v[key]); err != nil {
			return err
		}
	}
	for _, key := range s.Required {
		if _, given := v[key]; !given {
			return fmt.Errorf("%s: missing; it is required", join(field, key))
		}
	}
	return nil
}

func (c *argumentChecker) number(s *jsonschema.Schema, field string, n json.Number) (any, error) {
	f, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("%s: %s is out of range", field, clip(n.String(), 40))
	}
	if s.Minimum != nil && f < *s.Minimum {
		return nil, fmt.Errorf("%s: must be at least %v, not %s", field, *s.Minimum, clip(n.String(), 40))
	}
	if s.Maximum != nil && f > *s.Maximum {
		return nil, fmt.Errorf("%s: must be at most %s, not %s", field, strconv.FormatFloat(*s.Maximum, 'f', -1, 64), clip(n.String(), 40))
	}
	if s.Type != "integer" {
		return n, nil
	}
	if f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
		return nil, fmt.Errorf("%s: must be a whole number, not %s", field, clip(n.String(), 40))
	}
	if _, err := n.Int64(); err != nil {
		// 5.0 and 1e3 are whole numbers too.
		c.changed = true
		return json.Number(strconv.FormatInt(int64(f), 10)), nil
	}
	return n, nil
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func article(name string) string {
	switch name {
	case "null":
		return name
	case "integer":
		return "a whole number"
	case "array":
		return "a list"
	case "object":
		return "an object"
	}
	return "a " + name
}

// quoted shows a short scalar value.
func quoted(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf(" (%q)", clip(v, 40))
	case json.Number, bool:
		return fmt.Sprintf(" (%v)", v)
	}
	return ""
}

func words(values []any) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", v)
	}
	return b.String()
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}

func orArguments(field string) string {
	if field == "" {
		return "the arguments"
	}
	return field
}
