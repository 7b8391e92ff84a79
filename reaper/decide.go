package reaper

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verdict is what is known of a container's owner.
type Verdict string

const (
	// Alive: the owner lives, or the container is detached and has not
	// expired.
	Alive Verdict = "alive"
	// Orphan: the owner is proven to be gone, or the container is detached
	// and has expired. Only these are removed.
	Orphan Verdict = "orphan"
	// Unknown: it is ours, but whether its owner lives cannot be told from
	// here.
	Unknown Verdict = "unknown"
	// Foreign: it is not ours, although it carries labels of ours.
	Foreign Verdict = "foreign"
)

// Facts are what the engine tells about one container.
type Facts struct {
	// Names are all names of the container, each with the engine's slash.
	Names []string
	// Labels are the container's, those of its image included.
	Labels map[string]string
	// ImageLabels are the image's own.
	ImageLabels map[string]string
	// ImageGone reports that the engine no longer has the image, so that
	// ImageLabels are not known.
	ImageGone bool
}

// Decide tells whether a container is an orphan, and why, in one short clause.
// It does no I/O: now is the time, self this process, and process looks up a
// PID in self's process table.
func Decide(now time.Time, self Owner, process func(pid int) Presence, f Facts) (Tag, Verdict, string) {
	t, err := Claim(f)
	switch {
	case errors.Is(err, ErrImageGone):
		return t, Unknown, err.Error()
	case err != nil:
		return t, Foreign, err.Error()
	}
	if t.Detached {
		v, reason := expired(now, t.Expires)
		return t, v, reason
	}
	v, reason := gone(self, process, t.Owner)
	return t, v, reason
}

// ErrImageGone is why nothing can be told of a container whose labels may be its
// image's.
var ErrImageGone = errors.New("its image is gone, so whose its labels are cannot be told")

// Claim tells whether a container is ours: its labels make sense, its name is the
// one that derives from its labelled id, and its image carries none of our keys.
// The error says why it is not; the Tag is then what the labels say, if anything.
func Claim(f Facts) (Tag, error) {
	t, err := ParseTag(f.Labels)
	if err != nil {
		return Tag{}, err
	}
	if !slices.Contains(f.Names, "/"+Name(t.ID)) {
		return t, errors.New("its name is not " + Name(t.ID))
	}
	if f.ImageGone {
		return t, ErrImageGone
	}
	for key := range f.ImageLabels {
		if strings.HasPrefix(key, Prefix) {
			return t, fmt.Errorf("its image carries the label %.80q", key)
		}
	}
	return t, nil
}

// expired judges a detached container.
func expired(now, expires time.Time) (Verdict, string) {
	switch {
	case expires.IsZero():
		return Alive, "detached"
	case now.After(expires):
		return Orphan, "detached, expired at " + expires.Format(time.RFC3339)
	}
	return Alive, "detached until " + expires.Format(time.RFC3339)
}

// gone judges an owner. Where a fact is missing on either side nothing is
// proven.
func gone(self Owner, process func(pid int) Presence, o Owner) (Verdict, string) {
	switch {
	case o.Host == "" || o.Host != self.Host:
		return Unknown, fmt.Sprintf("its owner runs on the host %.80q", o.Host)
	case o.Machine != self.Machine:
		return Unknown, "its owner runs on another machine of the same host name"
	case o.Boot == "" || self.Boot == "":
		return Unknown, "its owner's boot is not known"
	case o.Boot != self.Boot && o.Machine == "":
		return Unknown, "its owner ran before this boot, or on another machine: there is no machine id to tell"
	case o.Boot != self.Boot:
		return Orphan, "its owner ran before this machine was booted"
	case o.PIDNamespace == "" || o.PIDNamespace != self.PIDNamespace:
		return Unknown, "its owner runs in another PID namespace"
	case o.Started == "":
		return Unknown, "when its owner was started is not known"
	}
	p := process(o.PID)
	switch {
	case !p.Exists:
		return Orphan, fmt.Sprintf("its owner, process %d, is gone", o.PID)
	case p.Started == "":
		return Unknown, fmt.Sprintf("process %d may not be looked at", o.PID)
	case p.Started != o.Started:
		return Orphan, fmt.Sprintf("its owner is gone; process %d is another one now", o.PID)
	}
	return Alive, fmt.Sprintf("its owner, process %d, lives", o.PID)
}
