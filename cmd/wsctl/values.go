package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The values of flags. Each parses and checks its text when the flag is read,
// so that a bad value is refused before anything happens.

// duration is a time span: Go's syntax (90s, 1h30m) or a number of seconds
// (5, 0.5). Zero and more; set tells whether it was given.
type duration struct {
	value time.Duration
	most  time.Duration
	set   bool
}

func (d *duration) String() string {
	if !d.set {
		return ""
	}
	return d.value.String()
}

// Type names the value in help texts.
func (d *duration) Type() string { return "DURATION" }

func (d *duration) Set(s string) error {
	v, err := parseDuration(s)
	if err != nil {
		return err
	}
	if v > d.most {
		return fmt.Errorf("too long; give at most %s", shortDuration(d.most))
	}
	d.value, d.set = v, true
	return nil
}

func parseDuration(s string) (time.Duration, error) {
	bad := errors.New("not a duration; write seconds (5, 0.5) or units (90s, 2m, 1h30m)")
	if seconds, err := strconv.ParseFloat(s, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		switch {
		case math.IsNaN(seconds):
			return 0, bad
		case seconds < 0:
			return 0, errors.New("negative; give 0 or more")
		case seconds > math.MaxInt64/float64(time.Second)/2:
			return math.MaxInt64, nil // over every limit
		}
		v := time.Duration(seconds * float64(time.Second))
		if v == 0 && seconds > 0 {
			return 0, errors.New("shorter than a nanosecond")
		}
		return v, nil
	}
	v, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, bad
	case v < 0:
		return 0, errors.New("negative; give 0 or more")
	}
	return v, nil
}

// shortDuration prints a whole number of days or hours as such.
func shortDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}

// size is a number of bytes: 65536, 64k, 512m, 2g, in powers of 1024.
type size struct {
	value       int64
	least, most int64
	set         bool
}

func (n *size) String() string {
	if !n.set {
		return ""
	}
	return strconv.FormatInt(n.value, 10)
}

// Type names the value in help texts.
func (n *size) Type() string { return "SIZE" }

func (n *size) Set(s string) error {
	v, err := units.RAMInBytes(s)
	switch {
	case err != nil:
		return errors.New("not a size; write bytes (65536) or units of 1024 (64k, 512m, 2g)")
	case v < 0:
		// More than fits; a minus sign is refused above.
		return fmt.Errorf("too large; give at most %s", units.BytesSize(float64(n.most)))
	case v < n.least:
		return fmt.Errorf("too small; give at least %s", units.BytesSize(float64(n.least)))
	case v > n.most:
		return fmt.Errorf("too large; give at most %s", units.BytesSize(float64(n.most)))
	}
	n.value, n.set = v, true
	return nil
}

// count is a whole number.
type count struct {
	value       int64
	least, most int64
}

func (n *count) String() string {
	if n.value == 0 {
		return ""
	}
	return strconv.FormatInt(n.value, 10)
}

// Type names the value in help texts.
func (n *count) Type() string { return "N" }

func (n *count) Set(s string) error {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < n.least || v > n.most {
		return fmt.Errorf("not a number from %d to %d", n.least, n.most)
	}
	n.value = v
	return nil
}

// cpus is a number of processors, fractions allowed.
type cpus struct{ value float64 }

func (n *cpus) String() string {
	if n.value == 0 {
		return ""
	}
	return strconv.FormatFloat(n.value, 'g', -1, 64)
}

// Type names the value in help texts.
func (n *cpus) Type() string { return "N" }

func (n *cpus) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	// Below a hundredth the kernel's quota (1 ms in 100 ms) is not reached.
	if err != nil || !(v >= 0.01 && v <= 4096) {
		return errors.New("not a number of processors; write 2 or 0.5")
	}
	n.value = v
	return nil
}

// choice is one of a few words.
type choice struct {
	value string
	words []string
}

func (c *choice) String() string { return c.value }

// Type names the value in help texts.
func (c *choice) Type() string { return strings.Join(c.words, "|") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return fmt.Errorf("use one of %s", strings.Join(c.words, ", "))
	}
	c.value = s
	return nil
}

// complete offers the words to a shell.
func (c *choice) complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return c.words, cobra.ShellCompDirectiveNoFileComp
}

// addChoice defines a flag of a few words, and its completion.
func addChoice(cmd *cobra.Command, c *choice, name, usage string) {
	cmd.Flags().Var(c, name, usage)
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(name, c.complete)
}

// named is any string. Its name stands apart from the usage, which shells show as
// it is when they complete: a name in backquotes, as pflag has it, is shown with
// them.
type named struct {
	value *string
	name  string
}

func (t *named) String() string {
	if t.value == nil { // pflag asks a zero value
		return ""
	}
	return *t.value
}

// Type names the value in help texts.
func (t *named) Type() string { return t.name }

func (t *named) Set(s string) error {
	*t.value = s
	return nil
}

// names is a flag of names, separated by commas, that may be given several
// times. Empty: no name.
type names struct {
	values *[]string
	name   string
}

func (n *names) String() string {
	if n.values == nil { // pflag asks a zero value
		return ""
	}
	return strings.Join(*n.values, ",")
}

// Type names the value in help texts.
func (n *names) Type() string { return n.name }

func (n *names) Set(s string) error {
	if s != "" {
		*n.values = append(*n.values, strings.Split(s, ",")...)
	}
	return nil
}

// list is a flag that may be given several times; its values may hold commas.
type list struct {
	values []string
	name   string
}

func (l *list) String() string { return strings.Join(l.values, " ") }

// Type names the value in help texts.
func (l *list) Type() string { return l.name }

func (l *list) Set(s string) error {
	if s == "" {
		return errors.New("empty")
	}
	l.values = append(l.values, s)
	return nil
}

// labels is a flag KEY=VALUE that may be given several times.
type labels map[string]string

func (l labels) String() string { return "" }

// Type names the value in help texts.
func (l labels) Type() string { return "KEY=VALUE" }

func (l labels) Set(s string) error {
	key, value, ok := strings.Cut(s, "=")
	if !ok || key == "" {
		return errors.New("not a label; write KEY=VALUE")
	}
	l[key] = value
	return nil
}

var (
	_ pflag.Value = labels(nil)
	_ pflag.Value = (*duration)(nil)
	_ pflag.Value = (*size)(nil)
	_ pflag.Value = (*count)(nil)
	_ pflag.Value = (*cpus)(nil)
	_ pflag.Value = (*choice)(nil)
	_ pflag.Value = (*named)(nil)
	_ pflag.Value = (*names)(nil)
	_ pflag.Value = (*list)(nil)
)
