package tools

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// inputSchema is the schema of a struct of arguments. Beside the tags that
// package jsonschema reads (json, and jsonschema for the description), a field
// may have min and max (of a number, or of the length of a list), and enum
// (words with commas between). A field without omitempty is required.
func inputSchema[T any]() *jsonschema.Schema {
	s := inferred[T]()
	refine(s, reflect.TypeFor[T]())
	return s
}

// outputSchema is the schema of a structured result, with the field that the
// set adds when the result was too long.
func outputSchema[T any]() *jsonschema.Schema {
	s := inferred[T]()
	refine(s, reflect.TypeFor[T]())
	// A model that is told of a field that is not there asks for it; a
	// client that finds one that it was not told of refuses the result.
	s.Properties[cutField] = inferred[cut]()
	s.Properties[cutField].Description = "there when the result was too long and is cut"
	s.PropertyOrder = append(s.PropertyOrder, cutField)
	return s
}

func inferred[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(fmt.Sprintf("tools: %v has no schema: %v", reflect.TypeFor[T](), err))
	}
	return s
}

// refine adds what the tags of t's fields say.
func refine(s *jsonschema.Schema, t reflect.Type) {
	// A list may be written as null in Go's JSON; nobody else has to.
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		refine(s, t.Elem())
	case reflect.Slice:
		if s.Items != nil {
			refine(s.Items, t.Elem())
		}
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			property := s.Properties[name]
			if property == nil {
				continue
			}
			refine(property, f.Type)
			constrain(property, f.Tag)
		}
	}
}

func constrain(s *jsonschema.Schema, tag reflect.StructTag) {
	if text, ok := tag.Lookup("enum"); ok {
		for word := range strings.SplitSeq(text, ",") {
			s.Enum = append(s.Enum, word)
		}
	}
	for _, key := range []string{"min", "max"} {
		text, ok := tag.Lookup(key)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic(fmt.Sprintf("tools: tag %s:%q is no number", key, text))
		}
		count := int(n)
		switch isList := s.Type == "array"; {
		case isList && key == "min":
			s.MinItems = &count
		case isList:
			s.MaxItems = &count
		case key == "min":
			s.Minimum = &n
		default:
			s.Maximum = &n
		}
	}
}
