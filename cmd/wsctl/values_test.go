package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/wsctl/wsctl/workspace"
)

func TestDurationTakesSecondsAndUnitsAndRefusesNonsense(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "5": 5 * time.Second, "0.5": 500 * time.Millisecond, "1e2": 100 * time.Second,
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond,
	} {
		d := duration{most: workspace.MaxTimeout}
		if err := d.Set(text); err != nil || d.value != want || !d.set {
			t.Errorf("%q: %v, %v; want %v", text, d.value, err, want)
		}
	}
	for text, reason := range map[string]string{
		"-1": "negative", "-5s": "negative", "1e15": "too long", "9223372036854775807": "too long",
		"1e400": "too long", "Inf": "too long", "-Inf": "negative", "8761h": "too long",
		"NaN": "not a duration", "": "not a duration", "5 s": "not a duration", "five": "not a duration",
		"0x": "not a duration", "1e-12": "shorter",
	} {
		d := duration{most: workspace.MaxTimeout}
		if err := d.Set(text); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v; want an error that says %q", text, err, reason)
		}
		if d.set || d.value != 0 {
			t.Errorf("%q: a refused value was kept", text)
		}
	}
}

func TestSizeIsInPowersOf1024(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "65536": 65536, "64k": 64 << 10, "64K": 64 << 10, "64kb": 64 << 10, "64KiB": 64 << 10, "1.5m": 3 << 19, "2g": 2 << 30,
	} {
		n := size{most: 1 << 40}
		if err := n.Set(text); err != nil || n.value != want || !n.set {
			t.Errorf("%q: %d, %v; want %d", text, n.value, err, want)
		}
	}
	for text, reason := range map[string]string{
		"": "not a size", "-1": "not a size", "5q": "not a size", "1e": "not a size", "one": "not a size", "5 5": "not a size",
		"3": "too small", "2t": "too large", "1000000000000000000000": "too large", "9e99g": "too large",
	} {
		n := size{least: 4, most: 1 << 40}
		if err := n.Set(text); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v; want an error that says %q", text, err, reason)
		}
	}
}

func TestNumbersHaveBounds(t *testing.T) {
	for _, c := range []struct {
		value pflag.Value
		good  []string
		bad   []string
	}{
		{&count{least: 1, most: 10}, []string{"1", "10"}, []string{"0", "-1", "11", "1.5", "", "x"}},
		{&cpus{}, []string{"0.5", "2", "1e1"}, []string{"0", "-1", "0.001", "NaN", "Inf", "1e9", "", "x"}},
		{&choice{words: []string{"a", "b"}}, []string{"a", "b"}, []string{"", "c", "A"}},
		{&list{}, []string{"a,b"}, []string{""}},
	} {
		for _, text := range c.good {
			if err := c.value.Set(text); err != nil {
				t.Errorf("%T %q: %v", c.value, text, err)
			}
		}
		for _, text := range c.bad {
			if err := c.value.Set(text); err == nil {
				t.Errorf("%T takes %q", c.value, text)
			}
		}
	}
}
