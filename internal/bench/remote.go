//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// measureOrchestrator measures what a server adds.
func measureOrchestrator(ctx context.Context, r *report, o options) error {
	t, err := openTree()
	if err != nil {
		return err
	}
	if err := errors.Join(t.wire(ctx, r), t.close()); err != nil {
		return err
	}
	return measureClaim(ctx, r, o)
}

// wire reads a small file over the wire, with a token, through the whole of both
// sides. The peer is a handler that has the same bytes in memory and asks
// nobody, and the same standard client.
func (t *tree) wire(ctx context.Context, r *report) (err error) {
	content := make([]byte, smallFile)
	if _, err := t.ws.WriteFile(ctx, "file", content, workspace.WriteOptions{}); err != nil {
		return err
	}
	authority, err := remote.NewAuthority(remote.NewKey())
	if err != nil {
		return err
	}
	token, err := authority.Issue(remote.Grant{Scopes: []remote.Scope{remote.Read}, Workspaces: []string{remote.DefaultID}, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		return err
	}
	handler, err := remote.Handler(t.ws, remote.Options{Authority: authority})
	if err != nil {
		return err
	}
	served, bare := httptest.NewServer(handler), httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(content)
	}))
	defer bare.Close()
	defer served.Close()
	d, err := remote.Dial(ctx, served.URL, token, remote.DialOptions{})
	if err != nil {
		return err
	}
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ws.Close()) }()
	client := bare.Client()
	ours := &side{name: "Workspace.ReadFile, dialled", block: 200, call: func() error { _, err := ws.ReadFile(ctx, "file", 0); return err }}
	std := &side{name: "net/http and a bare handler", block: 200, call: func() error {
		resp, err := client.Get(bare.URL)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		return err
	}}
	if err := alternate(ctx, 5*time.Second, ours, std); err != nil {
		return err
	}
	r.compared("read 4 KiB over the wire", ours, std)
	r.add(bar{name: "orchestrator.read-wire", measured: ours.ratio(std, 0.5), limit: 1.5})
	return nil
}
