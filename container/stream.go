//go:build unix

package container

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/docker/docker/api/types"
)

// writeTimeout bounds one write to the engine. What reads at the other end
// always goes on reading, so a write that takes this long goes nowhere.
const writeTimeout = 10 * time.Second

// stream is the connection to the three streams of one process in a container,
// as the engine's attach and exec calls hand it out for a process without a
// terminal. Writes may come from any goroutine.
type stream struct {
	hijacked types.HijackedResponse
	exec     string // the exec's id, empty for PID 1
	writes   sync.Mutex
}

// Write sends bytes to the process's standard input.
func (s *stream) Write(p []byte) (int, error) {
	s.writes.Lock()
	defer s.writes.Unlock()
	if err := s.hijacked.Conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return s.hijacked.Conn.Write(p)
}

// CloseWrite ends the process's standard input. Its output goes on.
func (s *stream) CloseWrite() error { return s.hijacked.CloseWrite() }

// Close ends the connection; demux returns.
func (s *stream) Close() error { return s.hijacked.Conn.Close() }

// Stream numbers of the engine's multiplexed format (Docker Engine API, "Attach
// to a container", stream format).
const (
	streamStdout = 1
	streamStderr = 2
)

// demux reads the engine's frames until the stream ends and passes each one's
// bytes on as they come. It returns nil at the stream's end. It must be called
// once. A frame may be of any size; memory does not grow with it.
func (s *stream) demux(stdout, stderr io.Writer) error {
	const headerLen = 8
	buf := make([]byte, 64<<10)
	have := 0      // bytes in buf
	var left int64 // bytes of the current frame that are still to come
	var to io.Writer
	for {
		n, err := s.hijacked.Reader.Read(buf[have:])
		have += n
		b := buf[:have]
		for {
			if left > 0 && len(b) > 0 {
				k := min(int64(len(b)), left)
				if _, err := to.Write(b[:k]); err != nil {
					return err
				}
				b, left = b[k:], left-k
			}
			if left > 0 || len(b) < headerLen {
				break
			}
			switch b[0] {
			case streamStdout:
				to = stdout
			case streamStderr:
				to = stderr
			default:
				return fmt.Errorf("the engine sent a frame of stream %d", b[0])
			}
			left = int64(binary.BigEndian.Uint32(b[4:headerLen]))
			b = b[headerLen:]
		}
		have = copy(buf, b)
		switch {
		case errors.Is(err, io.EOF) && (have > 0 || left > 0):
			return io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
