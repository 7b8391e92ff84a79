package remote

import (
	_ "embed"
	"net/http"
	"slices"
)

//go:embed openapi.json
var openAPI []byte

// OpenAPI returns the description of this package's routes, OpenAPI 3.1.
func OpenAPI() []byte { return slices.Clone(openAPI) }

func serveOpenAPI(w http.ResponseWriter, r *http.Request, _ *Call) error {
	if _, err := query(r); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI) // who asked may be gone
	return nil
}
