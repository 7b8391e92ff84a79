//go:build unix

package container

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// recorder keeps the writes to two streams in the order in which they came.
type recorder struct{ log *[]string }

func (r recorder) on(name string) writes { return writes{name, r.log} }

type writes struct {
	name string
	log  *[]string
}

func (w writes) Write(p []byte) (int, error) {
	*w.log = append(*w.log, w.name+string(p))
	return len(p), nil
}

func engineFrame(stream byte, text string) []byte {
	head := []byte{stream, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[4:], uint32(len(text)))
	return append(head, text...)
}

// Neighbouring frames of one stream come as one write, and nothing changes places,
// wherever the frames are cut.
func TestDemuxer(t *testing.T) {
	all := bytes.Join([][]byte{
		engineFrame(streamStdout, "one "), engineFrame(streamStdout, "two "), engineFrame(streamStdout, ""),
		engineFrame(streamStderr, "bad "), engineFrame(streamStdout, "three"), engineFrame(streamStderr, "worse"),
	}, nil)
	for cut := range len(all) + 1 {
		var log []string
		r := recorder{&log}
		var d demuxer
		d.to[streamStdout], d.to[streamStderr] = r.on("o:"), r.on("e:")
		rest, err := d.take(bytes.Clone(all[:cut]))
		if err != nil {
			t.Fatal(err)
		}
		rest, err = d.take(append(bytes.Clone(rest), all[cut:]...))
		if err != nil || len(rest) > 0 || d.left != 0 {
			t.Fatalf("cut at %d: %v, %d bytes are left", cut, err, len(rest))
		}
		joined := ""
		last := ""
		for _, w := range log {
			if w[:2] == last {
				w = w[2:]
			} else {
				last = w[:2]
			}
			joined += w
		}
		if joined != "o:one two e:bad o:threee:worse" {
			t.Errorf("cut at %d: %q", cut, log)
		}
		if cut == len(all) && len(log) != 4 {
			t.Errorf("%d writes: %q", len(log), log)
		}
	}
	var d demuxer
	if _, err := d.take([]byte{7, 0, 0, 0, 0, 0, 0, 0}); err == nil {
		t.Error("a frame of stream 7 was taken")
	}
}
