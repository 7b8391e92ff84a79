package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// This file changes TOML by the bytes that have to change, as config_json.go
// does JSON.

// decodeTOML returns what a file of TOML says.
func decodeTOML(text []byte) (map[string]any, error) {
	all := map[string]any{}
	if err := toml.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("it is not TOML: %w", err)
	}
	return all, nil
}

// setTOML sets values in the table of that name, and adds one at the end of the
// file when there is none.
func setTOML(text []byte, table []string, values []field) ([]byte, error) {
	all, err := decodeTOML(text)
	if err != nil {
		return nil, err
	}
	if _, there := lookUp(all, table); !there {
		return addTable(text, table, values)
	}
	for _, v := range values {
		line, err := tomlLine(v)
		if err != nil {
			return nil, err
		}
		begin, end, err := findTOML(text, table, v.name)
		if err != nil {
			return nil, err
		}
		if begin == end {
			line = append([]byte("\n"), line...)
		}
		text = slices.Concat(text[:begin], line, text[end:])
	}
	return text, nil
}

func addTable(text []byte, table []string, values []field) ([]byte, error) {
	b := bytes.NewBuffer(slices.Clone(text))
	if len(text) > 0 {
		if !bytes.HasSuffix(text, []byte("\n")) {
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
	}
	var names []string
	for _, name := range table {
		names = append(names, tomlKey(name))
	}
	fmt.Fprintf(b, "[%s]\n", strings.Join(names, "."))
	for _, v := range values {
		line, err := tomlLine(v)
		if err != nil {
			return nil, err
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// tomlLine is "name = value".
func tomlLine(v field) ([]byte, error) {
	line, err := toml.Marshal(map[string]any{v.name: v.value})
	return bytes.TrimRight(line, "\n"), err
}

// tomlKey is a name as a key: bare where that will do (TOML 1.0, Keys).
func tomlKey(name string) string {
	bare := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
	if bare {
		return name
	}
	quoted, err := toml.Marshal(map[string]any{name: 0})
	if err != nil {
		return name
	}
	key, _, _ := strings.Cut(string(quoted), " = ")
	return key
}

// findTOML is where a key of a table is; where the two offsets are the same it
// is not there and may be added.
func findTOML(text []byte, table []string, name string) (begin, end int, err error) {
	p := unstable.Parser{}
	p.Reset(text)
	inside, header := false, -1
	for p.NextExpression() {
		e := p.Expression()
		var key []string
		last := 0
		for it := e.Key(); it.Next(); {
			key = append(key, string(it.Node().Data))
			last = int(it.Node().Raw.Offset + it.Node().Raw.Length)
		}
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			inside = e.Kind == unstable.Table && slices.Equal(key, table)
			if inside {
				header = last
			}
		case unstable.KeyValue:
			if inside && slices.Equal(key, []string{name}) {
				return int(e.Raw.Offset), int(e.Raw.Offset + e.Raw.Length), nil
			}
		}
	}
	if err := p.Error(); err != nil {
		return 0, 0, err
	}
	if header < 0 {
		return 0, 0, errors.New("the server's table in it is written in a way that wsctl does not change; change it by hand")
	}
	// At the end of the header's line.
	if n := bytes.IndexByte(text[header:], '\n'); n >= 0 {
		return header + n, header + n, nil
	}
	return len(text), len(text), nil
}

// lookUp is the value at a path of names.
func lookUp(all map[string]any, path []string) (any, bool) {
	var at any = all
	for _, name := range path {
		table, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		if at, ok = table[name]; !ok {
			return nil, false
		}
	}
	return at, true
}
