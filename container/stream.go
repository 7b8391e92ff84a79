//go:build unix

package container

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
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
	exec     string      // the exec's id, empty for PID 1
	begun    func()      // called when the exec's process is there, or will not be
	forget   func() bool // ends that the end of the box closes it
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

// TryWrite implements keeper.TryWriter where the connection is a socket.
func (s *stream) TryWrite(p []byte) int {
	conn, ok := s.hijacked.Conn.(syscall.Conn)
	if !ok {
		return 0 // TLS
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	s.writes.Lock()
	defer s.writes.Unlock()
	n := 0
	_ = raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), p)
		return true // whether or not it would block
	})
	return max(n, 0)
}

// CloseWrite ends the process's standard input. Its output goes on.
func (s *stream) CloseWrite() error { return s.hijacked.CloseWrite() }

// Close ends the connection; demux returns.
func (s *stream) Close() error {
	s.begun()
	s.forget()
	return s.hijacked.Conn.Close()
}

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
	d := demuxer{to: [...]io.Writer{streamStdout: stdout, streamStderr: stderr}}
	buf := make([]byte, demuxBuffer)
	have := 0 // bytes in buf
	for {
		n, err := s.hijacked.Reader.Read(buf[have:])
		have += n
		s.begun()
		rest, fault := d.take(buf[:have])
		if fault != nil {
			return fault
		}
		have = copy(buf, rest)
		switch {
		case errors.Is(err, io.EOF) && (have > 0 || d.left > 0):
			return io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// demuxBuffer is as much as one read takes: about what a socket holds.
const demuxBuffer = 128 << 10

// demuxer takes the engine's frames apart.
type demuxer struct {
	to      [streamStderr + 1]io.Writer
	current byte  // the stream of the current frame
	left    int64 // bytes of it that are still to come
}

// take passes on what b holds and returns the beginning of a header that is not
// yet whole. Neighbouring frames of one stream are passed on as one: b is
// changed for that.
func (d *demuxer) take(b []byte) (rest []byte, err error) {
	const headerLen = 8
	from, end := 0, 0 // b[from:end] is to be passed on to the current stream
	flush := func() error {
		p := b[from:end]
		from = end
		if len(p) == 0 {
			return nil
		}
		_, err := d.to[d.current].Write(p)
		return err
	}
	at := 0 // of what is not yet looked at
	for {
		if n := min(int64(len(b)-at), d.left); n > 0 {
			if from == end {
				from, end = at, at
			}
			end += copy(b[end:], b[at:at+int(n)])
			at, d.left = at+int(n), d.left-n
		}
		if d.left > 0 || len(b)-at < headerLen {
			return b[at:], flush()
		}
		if b[at] != streamStdout && b[at] != streamStderr {
			return nil, errors.Join(flush(), fmt.Errorf("the engine sent a frame of stream %d", b[at]))
		}
		if b[at] != d.current {
			if err := flush(); err != nil {
				return nil, err
			}
			d.current = b[at]
		}
		d.left = int64(binary.BigEndian.Uint32(b[at+4 : at+headerLen]))
		at += headerLen
	}
}
