package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// This file changes JSON as people write it, with comments and trailing commas,
// by the bytes that have to change: all others stay.

// parseJSON reads a file of JSON with comments. Nothing in it is an empty object.
func parseJSON(text []byte) (hujson.Value, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}")
	}
	v, err := hujson.Parse(text)
	if err != nil {
		return v, fmt.Errorf("it is not JSON: %s", strings.TrimPrefix(err.Error(), "hujson: "))
	}
	if _, ok := v.Value.(*hujson.Object); !ok {
		return v, errors.New("it is no JSON object")
	}
	return v, nil
}

// decodeJSON returns what a file of JSON with comments says.
func decodeJSON(text []byte) (map[string]any, error) {
	// Standardize writes blanks over comments, in what it was parsed from.
	v, err := parseJSON(bytes.Clone(text))
	if err != nil {
		return nil, err
	}
	v.Standardize()
	var all map[string]any
	if err := json.Unmarshal(v.Pack(), &all); err != nil {
		return nil, err
	}
	return all, nil
}

// setJSON sets the value at a path of names, and makes the objects on the way.
func setJSON(text []byte, path []string, value any) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	root, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	at := &root
	for i, name := range path {
		object, ok := at.Value.(*hujson.Object)
		if !ok {
			return nil, fmt.Errorf("%s in it is no object", strings.Join(path[:i], "."))
		}
		n := slices.IndexFunc(object.Members, func(m hujson.ObjectMember) bool { return nameOf(m) == name })
		if n < 0 {
			return insertJSON(text, at, object, name, nested(path[i+1:], value))
		}
		at = &object.Members[n].Value
	}
	replacement, err := indentJSON(value, lineIndent(text, at.StartOffset), indentUnit(text))
	if err != nil {
		return nil, err
	}
	return slices.Concat(text[:at.StartOffset], replacement, text[at.EndOffset:]), nil
}

func nameOf(m hujson.ObjectMember) string {
	name, _ := m.Name.Value.(hujson.Literal)
	return name.String()
}

// nested is value below objects of these names.
func nested(names []string, value any) any {
	for _, name := range slices.Backward(names) {
		value = fields{{name, value}}
	}
	return value
}

// insertJSON adds a member at the end of an object, on a line of its own.
func insertJSON(text []byte, at *hujson.Value, object *hujson.Object, name string, value any) ([]byte, error) {
	unit := indentUnit(text)
	outer := lineIndent(text, at.StartOffset)
	inner := outer + unit
	shown, err := indentJSON(value, inner, unit)
	if err != nil {
		return nil, err
	}
	member := slices.Concat([]byte("\n"+inner), hujson.String(name), []byte(": "), shown)
	// What is between the last value, or the opening brace, and the closing
	// one: comments, and perhaps a comma. The member follows the comments,
	// which belong to what stands before them.
	begin, end := at.StartOffset+1, at.EndOffset-1
	comma, trailing := false, false
	if n := len(object.Members); n > 0 {
		last := object.Members[n-1].Value
		begin, comma, trailing = last.EndOffset, true, last.AfterExtra != nil
	}
	between := text[begin:end]
	kept := bytes.TrimRight(between, " \t\r\n")
	closing := between[len(kept):]
	if !bytes.Contains(closing, []byte("\n")) {
		closing = []byte("\n" + outer)
	}
	var b bytes.Buffer
	b.Write(text[:begin])
	if comma && !trailing {
		b.WriteByte(',')
	}
	b.Write(kept)
	b.Write(member)
	if trailing {
		b.WriteByte(',')
	}
	b.Write(closing)
	b.Write(text[end:])
	return b.Bytes(), nil
}

// fields is a JSON object whose fields have an order.
type fields []field

// MarshalJSON implements json.Marshaler.
func (f fields) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, one := range f {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := json.Marshal(one.value)
		if err != nil {
			return nil, err
		}
		b.Write(hujson.String(one.name))
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func indentJSON(value any, prefix, unit string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, unit)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// lineIndent is the white space at the beginning of the line that holds offset.
func lineIndent(text []byte, offset int) string {
	line := text[bytes.LastIndexByte(text[:offset], '\n')+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// indentUnit is how far a file indents one level: as its first indented line.
func indentUnit(text []byte) string {
	for line := range bytes.Lines(text) {
		if indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]; len(indent) > 0 && len(indent) < len(bytes.TrimRight(line, "\r\n")) {
			return string(indent)
		}
	}
	return "  "
}
