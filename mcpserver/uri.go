package mcpserver

import (
	"errors"
	"net/url"
	"strings"
)

// fileURI is what the URI of every file begins with; what follows is its path
// below the root.
const fileURI = "wsctl://file/"

// fileTemplate is the same as a template (RFC 6570).
const fileTemplate = fileURI + "{+path}"

var errURI = errors.New("no URI of a file here; write wsctl://file/PATH, the path relative to the root and percent-encoded once")

// pathOf is the path that a URI names. Each file has few spellings and nothing
// is decoded twice: no query, no dot segments, no separator in disguise.
func pathOf(uri string) (string, error) {
	rest, ok := strings.CutPrefix(uri, fileURI)
	if !ok || strings.ContainsAny(rest, "?#") {
		return "", errURI
	}
	for segment := range strings.SplitSeq(rest, "/") {
		name, err := url.PathUnescape(segment)
		if err != nil || name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			return "", errURI
		}
	}
	return url.PathUnescape(rest)
}
