package remote

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"
)

// answer is a http.ResponseWriter that knows whether an answer has begun.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) WriteHeader(status int) {
	a.begun = a.begun || status >= 200 || status == http.StatusSwitchingProtocols
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// fail sends an error.
func (s *Server) fail(w http.ResponseWriter, _ *http.Request, err error) {
	f := failureOf(err)
	status, known := statuses[f.Code]
	if !known {
		status = http.StatusInternalServerError
	}
	var u unauthorized
	if errors.As(err, &u) {
		status = http.StatusUnauthorized
	}
	w.Header().Del("Content-Disposition")
	send(w, status, problem{f})
}

// send sends v as JSON.
func send(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":{"code":"IO","message":"the answer cannot be sent"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // who asked may be gone
}

// heartbeat is how often a slow answer says that it is still coming.
const heartbeat = 5 * time.Second

// reply does the work of a request and sends what came of it. While that takes
// long it sends "102 Processing" (RFC 2518, section 10.1), so that the other
// side knows slow from dead. The body of the request must have been read.
func reply[T any](w http.ResponseWriter, r *http.Request, work func() (T, error)) error {
	stop := beat(w, r)
	v, err := work()
	stop()
	if err != nil {
		return err
	}
	send(w, http.StatusOK, v)
	return nil
}

// beat sends the heartbeat until stop is called.
func beat(w http.ResponseWriter, r *http.Request) (stop func()) {
	if !r.ProtoAtLeast(1, 1) {
		return func() {}
	}
	var mu sync.Mutex
	stopped := false
	var timer *time.Timer
	mu.Lock()
	timer = time.AfterFunc(heartbeat, func() {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			w.WriteHeader(http.StatusProcessing)
			timer.Reset(heartbeat)
		}
	})
	mu.Unlock()
	return func() {
		timer.Stop()
		mu.Lock()
		stopped = true
		mu.Unlock()
	}
}

// nothing is the answer of what has none.
type nothing struct{}

// ReadJSON reads the body of a request strictly: application/json, UTF-8, no
// unknown field, no key twice, at most 1 MiB.
func (c *Call) ReadJSON(w http.ResponseWriter, r *http.Request, v any) error {
	return readJSON(w, r, v)
}

// Reply does the work of a request, whose body was read, and sends what it
// returns as JSON. While it takes long the other side is told that it goes on.
func (c *Call) Reply(w http.ResponseWriter, r *http.Request, work func() (any, error)) error {
	return reply(w, r, work)
}
