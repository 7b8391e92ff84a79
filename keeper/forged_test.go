//go:build linux

package keeper_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/wrapper"
)

// told is a client whose keeper is the test, which knows both secrets of the
// first command.
type told struct {
	*keeper.Client
	token string
}

// sink is a keeper's stdin that tells of the first write.
type sink struct{ asked chan struct{} }

func (s sink) Write(p []byte) (int, error) {
	select {
	case s.asked <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (sink) Close() error { return nil }

// newTold answers the first request with the given markers, on both streams.
func newTold(t *testing.T, answer ...string) *told {
	secrets := append(bytes.Repeat([]byte{0xa5}, wrapper.TokenLen/2), bytes.Repeat([]byte{0x5a}, wrapper.TokenLen/2)...)
	asked := make(chan struct{}, 1)
	c := &told{
		Client: keeper.NewClient(sink{asked}, bytes.NewReader(secrets)),
		token:  hex.EncodeToString(secrets[:wrapper.TokenLen/2]),
	}
	for _, w := range []io.Writer{c.Stdout(), c.Stderr()} {
		_, err := w.Write(wrapper.AppendMarker(nil, strings.Repeat("0", wrapper.TokenLen), "serve"))
		check(t, err)
	}
	go func() {
		<-asked
		c.say(answer...)
	}()
	t.Cleanup(func() { c.Lost(nil) })
	return c
}

// seal is the second secret of newTold.
var seal = strings.Repeat("5a", wrapper.TokenLen/2)

// say tells the markers: a failure on both streams, as a keeper does.
func (c *told) say(bodies ...string) {
	for i, w := range []io.Writer{c.Stdout(), c.Stderr()} {
		for _, body := range bodies {
			if i == 1 && !strings.HasPrefix(body, "fail") {
				continue
			}
			// What it refuses ends the stream, which is a transport's affair.
			if _, err := w.Write(wrapper.AppendMarker(nil, c.token, body)); err != nil {
				break
			}
		}
	}
}

// A command can read its own token back from the pipe that is its stdout. With it
// alone it cannot say that it never ran, nor that it is another process: the keeper
// would be taken for free while it still runs.
func TestForgedMarkerGivesTheKeeperUp(t *testing.T) {
	for name, body := range map[string]string{
		"fail":                   "fail exec 13",
		"fail with a wrong seal": "fail " + strings.Repeat("0", wrapper.TokenLen) + " exec 13",
		"another pid":            "pid 8",
	} {
		t.Run(name, func(t *testing.T) {
			c := newTold(t, "start", "pid 7")
			r, err := c.Start(deadline(t), shell("true"), keeper.Streams{})
			check(t, err)
			c.say(body)
			_, err = r.Wait(deadline(t))
			var failed *keeper.StartError
			if err == nil || errors.As(err, &failed) || c.Free() {
				t.Errorf("error %v, free %v", err, c.Free())
			}
		})
	}
}

// With the seal it is the keeper that speaks.
func TestFailureWithTheSealIsBelieved(t *testing.T) {
	c := newTold(t, "start", "fail "+seal+" exec 13")
	_, err := c.Start(deadline(t), shell("true"), keeper.Streams{})
	var failed *keeper.StartError
	if !errors.As(err, &failed) || failed.Step != "exec" || !errors.Is(err, syscall.EACCES) || !c.Free() {
		t.Errorf("error %v, free %v", err, c.Free())
	}
}
