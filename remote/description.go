package remote

import (
	"strconv"
	"strings"
	"time"
)

// A file that is sent is described by one header, a dictionary as of RFC 9651
// with these keys in this order, since every read pays for it:
//
//	size=4096, perm=420, uid=0, gid=0, links=1, modified="2006-01-02T15:04:05.999999999Z", changed="…", version="…", id="…"
//
// What is sent is always a regular file.

// description is m as a header.
func (m fileMessage) description() string {
	b := make([]byte, 0, 256)
	for _, f := range [...]struct {
		key   string
		value int64
	}{
		{"size=", m.Size},
		{", perm=", int64(m.Perm)},
		{", uid=", int64(m.UID)},
		{", gid=", int64(m.GID)},
		{", links=", int64(m.Links)}, //nolint:gosec // no file has so many
	} {
		b = strconv.AppendInt(append(b, f.key...), f.value, 10)
	}
	b = append(m.Modified.AppendFormat(append(b, `, modified="`...), time.RFC3339Nano), '"')
	b = append(m.Changed.AppendFormat(append(b, `, changed="`...), time.RFC3339Nano), '"')
	b = append(append(append(b, `, version="`...), m.Version...), '"')
	b = append(append(append(b, `, id="`...), m.ID...), '"')
	return string(b)
}

// describedIn reads a description.
func describedIn(header string) (m fileMessage, ok bool) {
	rest, ok := header, len(header) <= 2*maxName+256
	number := func(key string) int64 {
		after, found := strings.CutPrefix(rest, key)
		digits, more, _ := strings.Cut(after, ", ")
		n, err := strconv.ParseInt(digits, 10, 64)
		ok = ok && found && err == nil
		rest = more
		return n
	}
	small := func(key string) uint32 {
		n := number(key)
		ok = ok && n >= 0 && n < 1<<32
		return uint32(n) //nolint:gosec // it was looked at
	}
	quoted := func(key string) string {
		after, found := strings.CutPrefix(rest, key+`"`)
		value, more, closed := strings.Cut(after, `"`)
		ok = ok && found && closed && quotable(value)
		rest = strings.TrimPrefix(more, ", ")
		return value
	}
	moment := func(key string) time.Time {
		t, err := time.Parse(time.RFC3339Nano, quoted(key))
		ok = ok && err == nil
		return t
	}
	m.Type = types[0].name
	m.Size = number("size=")
	m.Perm = small("perm=")
	m.UID, m.GID, m.Links = small("uid="), small("gid="), uint64(small("links="))
	m.Modified, m.Changed = moment("modified="), moment("changed=")
	m.Version = quoted("version=")
	m.ID = quoted("id=")
	return m, ok && rest == ""
}
