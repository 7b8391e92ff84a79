//go:build unix

package orchestrator

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

const (
	// maxAuditText bounds one text of an entry, in bytes.
	maxAuditText = 4096
	// maxAuditLine bounds one line, in bytes: JSON may take six for one.
	maxAuditLine = 1 << 20
)

// Audit is an append-only log, one JSON object a line. Append returns when the
// line is on disk; callers at the same time share a flush.
type Audit struct {
	file   *os.File
	redact func(string) string

	mu   sync.Mutex
	seq  int64
	prev string
	fail error

	flushing sync.Mutex // held by the one who flushes
	flushed  int64      // guarded by mu: the last entry on disk
}

// OpenAudit opens or makes a log. A line that a crash cut short is removed; any
// other damage is CORRUPT: move the file aside to go on. redact blanks out
// secrets; nil: what looks like one.
func OpenAudit(name string, redact func(string) string) (*Audit, error) {
	if redact == nil {
		redact = Redact
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrIO, "audit", name, "%w", err)
	}
	a := &Audit{file: f, redact: redact}
	if err := a.resume(); err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

// resume finds the end of the chain.
func (a *Audit) resume() error {
	end, last, err := VerifyAudit(a.file)
	if err != nil {
		return err
	}
	a.seq, a.prev, a.flushed = last.Seq, last.Hash, last.Seq
	if err := a.file.Truncate(end); err != nil {
		return auditError(err)
	}
	_, err = a.file.Seek(end, io.SeekStart)
	return auditError(err)
}

// VerifyAudit reads a log from its beginning and checks the chain. It returns
// where the last whole line ends and what it says. A damaged line is CORRUPT and
// named by its number. A last line without an end is not counted.
func VerifyAudit(r io.Reader) (end int64, last Entry, err error) {
	lines := bufio.NewReaderSize(r, 64<<10)
	for n := int64(1); ; n++ {
		line, err := lines.ReadSlice('\n')
		var long []byte
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(long) > maxAuditLine {
				return end, last, auditCorrupt(n, "it is too long")
			}
			long = append(long, line...)
			line, err = lines.ReadSlice('\n')
		}
		if long != nil {
			line = append(long, line...)
		}
		if err == io.EOF {
			return end, last, nil
		}
		if err != nil {
			return end, last, auditError(err)
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return end, last, auditCorrupt(n, "it is no entry")
		}
		if e.Seq != last.Seq+1 || e.Prev != last.Hash {
			return end, last, auditCorrupt(n, "it does not follow the line before it")
		}
		sum, err := e.sum()
		if err != nil || sum != e.Hash {
			return end, last, auditCorrupt(n, "it was changed")
		}
		end, last = end+int64(len(line)), e
	}
}

func auditCorrupt(line int64, what string) error {
	return workspace.Errorf(workspace.ErrCorrupt, "audit", "", "line %d: %s; what follows cannot be trusted", line, what)
}

func auditError(err error) error {
	if err == nil {
		return nil
	}
	return workspace.Errorf(workspace.ErrIO, "audit", "", "%w", err)
}

// sum is what Hash must be.
func (e Entry) sum() (string, error) {
	e.Hash = ""
	b, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:]), nil
}

// Append writes one entry; Seq, Time, Prev and Hash are set here. Once a write
// has failed the log takes no more: what is not written down is not done.
func (a *Audit) Append(e Entry) error {
	e.Who, e.Path, e.To, e.Dir, e.Error = a.clean(e.Who), a.clean(e.Path), a.clean(e.To), a.clean(e.Dir), a.clean(e.Error)
	e.Shell, e.Args = a.clean(e.Shell), a.cleanAll(e.Args)

	a.mu.Lock()
	if a.fail != nil {
		defer a.mu.Unlock()
		return a.fail
	}
	e.Seq, e.Prev, e.Time = a.seq+1, a.prev, time.Now().UTC()
	hash, err := e.sum()
	if err == nil {
		e.Hash = hash
		var line []byte
		if line, err = json.Marshal(e); err == nil {
			_, err = a.file.Write(append(line, '\n'))
		}
	}
	if err != nil {
		a.fail = auditError(err)
		defer a.mu.Unlock()
		return a.fail
	}
	a.seq, a.prev = e.Seq, e.Hash
	a.mu.Unlock()
	return a.flush(e.Seq)
}

// flush returns when the entry with that number is on disk.
func (a *Audit) flush(seq int64) error {
	a.flushing.Lock()
	defer a.flushing.Unlock()
	a.mu.Lock()
	done, upTo, fail := a.flushed >= seq, a.seq, a.fail
	a.mu.Unlock()
	if done || fail != nil {
		return fail
	}
	err := flushData(a.file)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.fail = auditError(err)
		return a.fail
	}
	a.flushed = upTo
	return nil
}

// Close closes the file.
func (a *Audit) Close() error { return a.file.Close() }

// clean makes a text fit to be written down: valid UTF-8, bounded, without
// secrets. JSON keeps line ends out of the line.
func (a *Audit) clean(s string) string {
	if s == "" {
		return s
	}
	// A secret that is cut in two is no longer known for one.
	s = a.redact(s)
	if len(s) > maxAuditText {
		s = s[:maxAuditText] + "…"
	}
	return strings.ToValidUTF8(s, string(utf8.RuneError))
}

func (a *Audit) cleanAll(args []string) []string {
	var kept []string
	room := maxAuditText
	for i, s := range args {
		if room <= 0 {
			return append(kept, fmt.Sprintf("… and %d more", len(args)-i))
		}
		if i > 0 && secretFlag.MatchString(args[i-1]) {
			s = blank
		}
		s = a.clean(s)
		room -= len(s) + 1
		kept = append(kept, s)
	}
	return kept
}

const blank = "[redacted]"

var (
	// secretName is a name whose value is a secret.
	secretName  = `(?i:[a-z0-9_.-]*(?:password|passwd|secret|token|api[_-]?key|apikey|access[_-]?key|private[_-]?key|credential|authorization)[a-z0-9_.-]*)`
	secretFlag  = regexp.MustCompile(`^--?` + secretName + `$`)
	secretValue = regexp.MustCompile(`(` + secretName + `["']?\s*[=:]\s*)(?:(?i:bearer|basic)\s+)?("[^"]*"|'[^']*'|[^\s"'&;]+)`)
	// secretShape are values that are known by how they look: of the big
	// services, JSON web tokens, URLs with a password, keys in PEM.
	secretShape = regexp.MustCompile(`\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`)
	secretURL   = regexp.MustCompile(`(\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+@`)
	secretBear  = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}`)
	secretPEM   = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)
)

// Redact blanks out what looks like a secret. It is a net, not a promise: a
// secret that looks like nothing is kept.
func Redact(s string) string {
	s = secretPEM.ReplaceAllString(s, blank)
	s = secretURL.ReplaceAllString(s, "${1}"+blank+"@")
	s = secretShape.ReplaceAllString(s, blank)
	s = secretBear.ReplaceAllString(s, "${1} "+blank)
	return secretValue.ReplaceAllString(s, "${1}"+blank)
}

// ReadAudit returns at most limit entries after the one with that number, and the
// number of the last. The log may grow meanwhile. It does not check the chain:
// VerifyAudit does.
func ReadAudit(name string, after int64, limit int) (list []Entry, last int64, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, after, auditError(err)
	}
	defer f.Close()
	list, last = []Entry{}, after
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxAuditLine)
	for n := int64(1); len(list) < limit && lines.Scan(); n++ {
		if n <= after {
			continue
		}
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// The last line, which is being written.
			break
		}
		list, last = append(list, e), n
	}
	return list, last, auditError(lines.Err())
}
