//go:build unix

package remote_test

import (
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain looks for goroutines that the tests have left behind.
func TestMain(m *testing.M) {
	if what := os.Getenv("REMOTE_TEST_AS"); what != "" {
		another(what, os.Getenv("REMOTE_TEST_PATH"))
		return
	}
	goleak.VerifyTestMain(tidy{m})
}

// tidy closes what net/http keeps open for the program's life.
type tidy struct{ m *testing.M }

func (t tidy) Run() int {
	code := t.m.Run()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	return code
}
