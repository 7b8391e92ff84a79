//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/wsctl/wsctl/tools"
)

// measureTools compares what tools do with how people do it without them.
func measureTools(ctx context.Context, r *report, _ options) error {
	t, err := openTree()
	if err != nil {
		return err
	}
	for _, measure := range []func(context.Context, *report) error{t.toolReads, t.toolEdits} {
		if err := measure(ctx, r); err != nil {
			return errors.Join(err, t.close())
		}
	}
	return errors.Join(t.close(), measureSearch(ctx, r))
}

// callTool calls a tool that must not fail.
func callTool(ctx context.Context, set *tools.Set, name string, args any) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	if result := set.Call(ctx, tools.Request{Name: name, Args: raw}); result.IsError {
		return fmt.Errorf("%s: %s", name, result.Text)
	}
	return nil
}

const (
	hugeFile  = 1 << 30 // bytes
	hugeTouch = 4 << 20 // bytes of text in its middle; the rest is a hole
	editFile  = 2 << 20 // bytes
)

// toolReads reads text by its byte offset in the middle of a file of 1 GiB.
func (t *tree) toolReads(ctx context.Context, r *report) error {
	const name = "huge"
	f, err := os.Create(t.path(name))
	if err != nil {
		return err
	}
	text := bytes.Repeat([]byte("a line of text in the middle of a large file\n"), hugeTouch/45)
	_, err = f.WriteAt(text, hugeFile/2)
	if err = errors.Join(err, f.Truncate(hugeFile), f.Close()); err != nil {
		return err
	}
	set, err := tools.NewSet(t.ws, tools.Options{})
	if err != nil {
		return err
	}
	defer set.Close()
	at := int64(hugeFile / 2)
	ours := &side{name: "read_file", block: 20, call: func() error {
		if at += 100_000; at > hugeFile/2+hugeTouch-200_000 {
			at = hugeFile / 2
		}
		return callTool(ctx, set, "read_file", map[string]any{"path": name, "byte_offset": at})
	}}
	b := make([]byte, 48<<10)
	std := &side{name: "open, pread 48 KiB, close", block: 20, call: func() error {
		f, err := os.Open(t.path(name))
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.ReadAt(b, hugeFile/2)
		return err
	}}
	if err := alternate(ctx, 3*time.Second, ours, std); err != nil {
		return err
	}
	r.compared("a page in the middle of 1 GiB", ours, std)
	r.add(bar{name: "tools.read-middle-of-1gib-ms", measured: float64(ours.at(0.5)) / float64(time.Millisecond), limit: 10})
	return nil
}

// toolEdits changes a line in the middle of a file of 2 MiB, beside a durable
// write of that file by hand.
func (t *tree) toolEdits(ctx context.Context, r *report) error {
	const name = "edited"
	line := []byte("func somethingOfAboutThisLength(ctx context.Context) error {\n")
	content := bytes.Repeat(line, editFile/len(line)/2)
	content = append(append(content, "value 0\n"...), content...)
	if err := os.WriteFile(t.path(name), content, 0o644); err != nil {
		return err
	}
	set, err := tools.NewSet(t.ws, tools.Options{})
	if err != nil {
		return err
	}
	defer set.Close()
	n := 0
	ours := &side{name: "edit_file", call: func() error {
		n++
		return callTool(ctx, set, "edit_file", map[string]any{
			"path": name, "old_string": fmt.Sprintf("value %d\n", n-1), "new_string": fmt.Sprintf("value %d\n", n),
		})
	}}
	hand := &side{name: "create, write, fsync, rename, fsync", call: func() error { return t.writeByHand("by-hand", content) }}
	if err := alternate(ctx, 5*time.Second, ours, hand); err != nil {
		return err
	}
	r.compared("edit a file of 2 MiB", ours, hand)
	r.add(bar{name: "tools.edit-2mib", measured: ours.ratio(hand, 0.5), limit: 3})
	return nil
}
