package main

import (
	"context"
	"log/slog"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

// logHandler shows what the packages below log as talk: warnings and worse.
type logHandler struct {
	ui    *ui
	attrs []slog.Attr
}

// logger is what the packages below get.
func (u *ui) logger() *slog.Logger { return slog.New(&logHandler{ui: u}) }

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle prints "message (key value, key value)".
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var facts []string
	add := func(a slog.Attr) bool {
		facts = append(facts, a.Key+" "+workspace.Printable(a.Value.Resolve().String()))
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	text := r.Message
	if len(facts) > 0 {
		text += " (" + strings.Join(facts, ", ") + ")"
	}
	h.ui.warn("%s", text)
	return nil
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{ui: h.ui, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup implements slog.Handler; a line has no room for groups.
func (h *logHandler) WithGroup(string) slog.Handler { return h }
