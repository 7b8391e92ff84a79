package reaper

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Prefix begins every label of ours. An image with such a label is not used,
// and no container made from it is taken for ours.
const Prefix = "wsctl."

// The labels. A container of ours has all of them, an empty value where there
// is nothing to tell.
const (
	labelFormat    = Prefix + "labels"
	labelID        = Prefix + "id"
	labelRoot      = Prefix + "root"
	labelWorkspace = Prefix + "workspace"
	labelVersion   = Prefix + "version"
	labelDetached  = Prefix + "detached"
	labelExpires   = Prefix + "expires"
	labelHost      = Prefix + "owner.host"
	labelMachine   = Prefix + "owner.machine"
	labelBoot      = Prefix + "owner.boot"
	labelNamespace = Prefix + "owner.pidns"
	labelPID       = Prefix + "owner.pid"
	labelStarted   = Prefix + "owner.started"
)

// format is the version of this set of labels. A container that names another
// is some other wsctl's and is left to it.
const format = "1"

// Bounds of what is believed.
const (
	maxID = 48
	// maxText is for names and ids that other programs make.
	maxText = 1024
	// maxRoot is PATH_MAX (limits.h), each byte escaped.
	maxRoot = 3 * 4096
	// maxPID is the largest pid_max of Linux (proc_sys_kernel(5)).
	maxPID = 1 << 22
)

// Tag is what a container of ours tells about itself.
type Tag struct {
	// ID is the container's own: made by NewID, or the name that people know
	// a detached one by (IsID). The container's name derives from it.
	ID string
	// Root is the workspace's root on the owner's machine, byte for byte.
	Root string
	// Workspace is the id that the root keeps; empty when it has none.
	Workspace string
	// Version is that of the program that made the container; for people.
	Version string
	// Detached containers outlive the process that made them.
	Detached bool
	// Expires is when a detached container may be removed, in whole seconds;
	// zero: never.
	Expires time.Time
	// Owner is the process that made it.
	Owner Owner
}

// NewID returns a random id of 80 bits for a Tag.
func NewID() string {
	var b [10]byte
	// It never fails: crypto/rand ends the program where there is no source.
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Name is the name of the container with that id.
func Name(id string) string { return "wsctl-" + id }

// Labels returns what a container must carry to be found again.
func (t Tag) Labels() map[string]string {
	expires := ""
	if !t.Expires.IsZero() {
		expires = t.Expires.UTC().Format(time.RFC3339)
	}
	return map[string]string{
		labelFormat:    format,
		labelID:        t.ID,
		labelRoot:      escape(t.Root),
		labelWorkspace: t.Workspace,
		labelVersion:   t.Version,
		labelDetached:  strconv.FormatBool(t.Detached),
		labelExpires:   expires,
		labelHost:      t.Owner.Host,
		labelMachine:   t.Owner.Machine,
		labelBoot:      t.Owner.Boot,
		labelNamespace: t.Owner.PIDNamespace,
		labelPID:       strconv.Itoa(t.Owner.PID),
		labelStarted:   t.Owner.Started,
	}
}

// ParseTag reads the labels of a container. It is strict: a label that is
// missing, or that Labels would not have written, is an error, and the
// container is then not ours to judge. Labels with other keys do not matter.
func ParseTag(labels map[string]string) (Tag, error) {
	r := reader{labels: labels}
	if f := r.text(labelFormat); r.err == nil && f != format {
		return Tag{}, fmt.Errorf("label %s is %q and not %s: another version of wsctl made it", labelFormat, f, format)
	}
	t := Tag{
		ID:        r.id(labelID),
		Root:      r.root(labelRoot),
		Workspace: r.text(labelWorkspace),
		Version:   r.text(labelVersion),
		Detached:  r.bool(labelDetached),
		Expires:   r.time(labelExpires),
		Owner: Owner{
			Host:         r.text(labelHost),
			Machine:      r.text(labelMachine),
			Boot:         r.text(labelBoot),
			PIDNamespace: r.text(labelNamespace),
			PID:          r.pid(labelPID),
			Started:      r.text(labelStarted),
		},
	}
	if r.err != nil {
		return Tag{}, r.err
	}
	return t, nil
}

// reader reads labels; the first fault sticks.
type reader struct {
	labels map[string]string
	err    error
}

// value returns a label of at most limit bytes.
func (r *reader) value(key string, limit int) string {
	v, ok := r.labels[key]
	switch {
	case r.err != nil:
	case !ok:
		r.err = fmt.Errorf("label %s is missing", key)
	case len(v) > limit:
		r.err = fmt.Errorf("label %s has %d bytes; at most %d make sense", key, len(v), limit)
	default:
		return v
	}
	return ""
}

// bad notes that a label cannot be what Labels writes.
func (r *reader) bad(key, v string) {
	if r.err == nil {
		r.err = fmt.Errorf("label %s is %.80q, which makes no sense", key, v)
	}
}

func (r *reader) text(key string) string {
	v := r.value(key, maxText)
	for i := range len(v) {
		if v[i] < ' ' || v[i] == 0x7f {
			r.bad(key, v)
			return ""
		}
	}
	return v
}

func (r *reader) id(key string) string {
	v := r.value(key, maxID)
	if r.err == nil && !IsID(v) {
		r.bad(key, v)
	}
	return v
}

// IsID reports whether s can be an id: at most 48 lower-case letters, digits and,
// not first, any of "-_.", which is also what the engine takes in a name.
func IsID(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z':
		case i > 0 && (c == '-' || c == '_' || c == '.'):
		default:
			return false
		}
	}
	return s != "" && len(s) <= maxID
}

func (r *reader) root(key string) string {
	v := r.value(key, maxRoot)
	root, err := unescape(v)
	if r.err == nil && (err != nil || root == "") {
		r.bad(key, v)
	}
	return root
}

func (r *reader) bool(key string) bool {
	v := r.value(key, maxText)
	if v != "true" && v != "false" {
		r.bad(key, v)
	}
	return v == "true"
}

func (r *reader) time(key string) time.Time {
	v := r.value(key, maxText)
	if v == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, v)
	if err != nil || t.IsZero() || t.UTC().Format(time.RFC3339) != v {
		r.bad(key, v)
	}
	return t.UTC()
}

func (r *reader) pid(key string) int {
	v := r.value(key, maxText)
	n, err := strconv.Atoi(v)
	if err != nil || n <= 0 || n > maxPID || strconv.Itoa(n) != v {
		r.bad(key, v)
	}
	return n
}

const hexDigits = "0123456789ABCDEF"

// escape makes any bytes a label that people can read: printable ASCII as it
// is, '%' and the rest as %XX.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c > ' ' && c < 0x7f && c != '%' {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

// unescape undoes escape and takes nothing else.
func unescape(s string) (string, error) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", errors.New("an escape is cut off")
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", err
		}
		b = append(b, byte(c))
		i += 2
	}
	if escape(string(b)) != s {
		return "", errors.New("not in the one spelling of its escapes")
	}
	return string(b), nil
}
