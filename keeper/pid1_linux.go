package keeper

import (
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// runInit is PID 1 of a container: it reaps, and answers requests. Without
// detached the end of stdin is the end of the process, upon which the kernel
// kills everything in its PID namespace: the leash.
func runInit(detached bool) int {
	e, err := prepare()
	if err != nil {
		return exitKernel
	}
	e.listen()
	for {
		reapAll()
		f, ok := e.in.next()
		switch {
		case ok:
			var answer []byte
			if answer, ok = answerTo(f); ok && writeAll(1, answer) == nil {
				continue
			}
			// Nobody to talk to any more; there is still to reap.
			e.in.stop(errMalformed)
		case e.in.err == nil || detached:
			e.wait(-1)
			continue
		}
		if !detached {
			return exitOK
		}
	}
}

// answerTo does what a frame asks for. ok is false for one that makes no sense.
func answerTo(f frame) (answer []byte, ok bool) {
	d := decoder{b: f.payload}
	b := binary.AppendUvarint(nil, d.uint(1<<63))
	switch f.kind {
	case frameReport:
		kinds, paths := d.bytes(), d.strings()
		if !d.end() || len(kinds) != len(paths) || len(kinds) > maxItems {
			return nil, false
		}
		for i, kind := range kinds {
			data, errno := inspect(Question(kind), paths[i])
			b = binary.AppendUvarint(b, uint64(errno))
			b = appendString(b, string(data))
			if len(b) > maxFrame {
				return nil, false
			}
		}
	case frameSweep:
		ms := d.uint(uint64(time.Hour / time.Millisecond))
		if !d.end() {
			return nil, false
		}
		killed := 0
		left := endAll(time.Now().Add(time.Duration(ms)*time.Millisecond), func(_ int, s unix.WaitStatus, _ unix.Rusage) {
			if s.Signaled() && s.Signal() == unix.SIGKILL {
				killed++
			}
		})
		b = binary.AppendUvarint(b, uint64(killed))
		b = binary.AppendUvarint(b, uint64(left))
	case frameKill:
		group, sig := d.uint(maxPID), d.uint(64)
		if !d.end() || group < 2 {
			return nil, false
		}
		errno, _ := unix.Kill(-int(group), unix.Signal(sig)).(unix.Errno)
		b = binary.AppendUvarint(b, uint64(errno))
	default:
		return nil, false
	}
	return appendFrame(nil, f.kind, b), true
}

// inspect answers one question about a path, 0 or an errno.
func inspect(q Question, path string) ([]byte, unix.Errno) {
	var data []byte
	var err error
	switch q {
	case AskRead:
		data, err = readBounded(path)
	case AskStat:
		var st unix.Stat_t
		if err = unix.Lstat(path, &st); err == nil {
			for _, v := range [...]uint64{uint64(st.Dev), st.Ino, uint64(st.Mode), uint64(st.Uid), uint64(st.Gid), uint64(st.Nlink)} {
				data = binary.AppendUvarint(data, v)
			}
		}
	case AskAccess:
		err = unix.Access(path, unix.W_OK|unix.X_OK)
	case AskReadlink:
		buf := make([]byte, unix.PathMax)
		var n int
		n, err = unix.Readlink(path, buf)
		data = buf[:max(n, 0)]
	default:
		err = unix.EINVAL
	}
	if err == nil {
		return data, 0
	}
	if errno, ok := err.(unix.Errno); ok {
		return nil, errno
	}
	return nil, unix.EIO
}

// readBounded reads a whole file. Non-blocking, as the path may lead to a FIFO.
func readBounded(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	data := make([]byte, 0, os.Getpagesize())
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := unix.Read(fd, data[len(data):min(cap(data), MaxRead+1)])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return data, err
		}
		if data = data[:len(data)+n]; len(data) > MaxRead {
			return nil, unix.EFBIG
		}
	}
}
