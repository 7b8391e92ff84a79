package remote_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

func newAuthority(t testing.TB, key []byte, revoked ...string) *remote.Authority {
	t.Helper()
	a, err := remote.NewAuthority(key, revoked...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

var full = remote.Grant{
	Name: "ci", Scopes: []remote.Scope{remote.Read, remote.Write, remote.Exec}, Workspaces: []string{"*"}, Expires: time.Now().Add(time.Hour),
}

func TestATokenHoldsWhatItWasIssuedFor(t *testing.T) {
	key := remote.NewKey()
	token := must(newAuthority(t, key).Issue(full))(t)
	who, err := newAuthority(t, key).Check(token)
	if err != nil || who.Name != "ci" || !slices.Equal(who.Scopes, full.Scopes) || !who.Covers("any") || who.Expires.Unix() != full.Expires.Unix() {
		t.Errorf("%+v, %v", who, err)
	}
	if id, err := token.ID(); err != nil || id != who.Token || id == "" {
		t.Errorf("its id is %q and %q, %v", id, who.Token, err)
	}
	if _, err := newAuthority(t, remote.NewKey()).Check(token); workspace.CodeOf(err) != workspace.ErrDenied {
		t.Errorf("another server takes it: %v", err)
	}
	for _, g := range []remote.Grant{
		{},
		{Scopes: full.Scopes, Workspaces: full.Workspaces},
		{Scopes: full.Scopes, Expires: full.Expires},
		{Workspaces: full.Workspaces, Expires: full.Expires},
		{Scopes: []remote.Scope{"root"}, Workspaces: full.Workspaces, Expires: full.Expires},
		{Scopes: full.Scopes, Workspaces: []string{"../x"}, Expires: full.Expires},
		{Scopes: full.Scopes, Workspaces: full.Workspaces, Expires: full.Expires, Prefix: "a/../b"},
		{Scopes: full.Scopes, Workspaces: full.Workspaces, Expires: full.Expires, Prefix: "a//b"},
		{Scopes: full.Scopes, Workspaces: full.Workspaces, Expires: full.Expires, Prefix: "\xff"},
	} {
		if token, err := newAuthority(t, key).Issue(g); err == nil {
			t.Errorf("a token for %+v: %s", g, string(token))
		}
	}
	if _, err := remote.NewAuthority([]byte("short")); err == nil {
		t.Error("a key of five bytes is taken")
	}
}

// TestATokenIsNotChanged changes every character of a token, and takes away,
// repeats and swaps its parts.
func TestATokenIsNotChanged(t *testing.T) {
	a := newAuthority(t, remote.NewKey())
	token := must(must(a.Issue(full))(t).Narrow(remote.Grant{Scopes: []remote.Scope{remote.Read}}))(t)
	if _, err := a.Check(token); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, changed string) {
		t.Helper()
		if changed == string(token) {
			t.Fatalf("%s: nothing was changed", what)
		}
		if who, err := a.Check(remote.Token(changed)); workspace.CodeOf(err) != workspace.ErrDenied {
			t.Errorf("%s: it is taken for %+v, %v", what, who, err)
		}
	}
	for i := range len(token) {
		for _, c := range []byte("Ax.=\n\x00") {
			if token[i] != c {
				b := []byte(token)
				b[i] = c
				refused(fmt.Sprintf("byte %d is %q", i, c), string(b))
			}
		}
	}
	p := strings.Split(string(token), ".")
	join := func(parts ...string) string { return strings.Join(parts, ".") }
	refused("its narrowing is taken away", join(p[0], p[1], p[2], p[4]))
	refused("its first block is taken away", join(p[0], p[1], p[3], p[4]))
	refused("a block is repeated", join(p[0], p[1], p[2], p[3], p[3], p[4]))
	refused("blocks are swapped", join(p[0], p[1], p[3], p[2], p[4]))
	refused("the signature is missing", join(p[:4]...))
	refused("it is padded", string(token)+"=")
	refused("it is long", join(p[0], p[1], strings.Repeat("A", 5000), p[4]))
	refused("nothing", "")
	refused("no signature", join(p[0], p[1], p[2], p[3], ""))
}

func TestNarrowingOnlyNarrows(t *testing.T) {
	a := newAuthority(t, remote.NewKey())
	soon := time.Now().Add(time.Minute)
	base := must(a.Issue(remote.Grant{
		Scopes: []remote.Scope{remote.Read, remote.Write}, Workspaces: []string{"a", "b"}, Prefix: "src", Expires: soon,
	}))(t)
	for what, c := range map[string]struct {
		by    remote.Grant
		check func(remote.Identity) bool
	}{
		"nothing":             {remote.Grant{}, func(i remote.Identity) bool { return len(i.Scopes) == 2 && i.Prefix == "src" }},
		"a scope":             {remote.Grant{Scopes: []remote.Scope{remote.Read}}, func(i remote.Identity) bool { return slices.Equal(i.Scopes, []remote.Scope{remote.Read}) }},
		"a scope it lacks":    {remote.Grant{Scopes: []remote.Scope{remote.Exec, remote.Admin}}, func(i remote.Identity) bool { return len(i.Scopes) == 0 }},
		"a workspace":         {remote.Grant{Workspaces: []string{"b", "c"}}, func(i remote.Identity) bool { return slices.Equal(i.Workspaces, []string{"b"}) }},
		"all workspaces":      {remote.Grant{Workspaces: []string{"*"}}, func(i remote.Identity) bool { return !i.Covers("c") && i.Covers("a") }},
		"a longer prefix":     {remote.Grant{Prefix: "./src/api/"}, func(i remote.Identity) bool { return i.Prefix == "src/api" }},
		"a later end":         {remote.Grant{Expires: soon.Add(time.Hour)}, func(i remote.Identity) bool { return i.Expires.Unix() == soon.Unix() }},
		"an earlier end":      {remote.Grant{Expires: soon.Add(-30 * time.Second)}, func(i remote.Identity) bool { return i.Expires.Unix() == soon.Unix()-30 }},
		"another's name":      {remote.Grant{Name: "x"}, func(i remote.Identity) bool { return i.Name == "/x" }},
		"no prefix, and root": {remote.Grant{Prefix: "."}, func(i remote.Identity) bool { return i.Prefix == "src" }},
	} {
		who, err := a.Check(must(base.Narrow(c.by))(t))
		if err != nil || !c.check(who) {
			t.Errorf("narrowed by %s: %+v, %v", what, who, err)
		}
	}
	for _, prefix := range []string{"other", "srcx", "sr"} {
		if who, err := a.Check(must(base.Narrow(remote.Grant{Prefix: prefix}))(t)); err == nil {
			t.Errorf("narrowed to %s as well as src it is good for %q", prefix, who.Prefix)
		}
	}
	token := base
	for range 7 {
		token = must(token.Narrow(remote.Grant{}))(t)
	}
	if _, err := a.Check(token); err != nil {
		t.Errorf("narrowed seven times: %v", err)
	}
	if _, err := token.Narrow(remote.Grant{}); workspace.CodeOf(err) != workspace.ErrTooLarge {
		t.Errorf("narrowed eight times: %v", err)
	}
}

// TestARestrictionThatIsNotKnownEndsATokensUse narrows a token as a later
// version might, which needs no key.
func TestARestrictionThatIsNotKnownEndsATokensUse(t *testing.T) {
	a := newAuthority(t, remote.NewKey())
	token := must(a.Issue(full))(t)
	for _, block := range []string{`{"hours":"9-17"}`, `{"scopes":["read"],"scopes":["exec"]}`, `{"prefix":"../x"}`, `{"prefix":"a/"}`, `{"expires":-1}`, `[]`, `null x`, ``} {
		if who, err := a.Check(remote.NarrowRaw(token, []byte(block))); workspace.CodeOf(err) != workspace.ErrDenied {
			t.Errorf("narrowed by %s: %+v, %v", block, who, err)
		}
	}
	if _, err := a.Check(remote.NarrowRaw(token, []byte(`{}`))); err != nil {
		t.Errorf("narrowed by nothing: %v", err)
	}
}

func TestRevoking(t *testing.T) {
	key := remote.NewKey()
	a := newAuthority(t, key)
	parent := must(a.Issue(full))(t)
	child := must(parent.Narrow(remote.Grant{Scopes: []remote.Scope{remote.Read}}))(t)
	grandchild := must(child.Narrow(remote.Grant{}))(t)
	other := must(a.Issue(full))(t)
	a.Revoke(must(child.ID())(t))
	for token, good := range map[remote.Token]bool{parent: true, child: false, grandchild: false, other: true} {
		if _, err := a.Check(token); (err == nil) != good {
			t.Errorf("after the child was revoked: good %v, %v", good, err)
		}
	}
	again := newAuthority(t, key, a.Revoked()...)
	if _, err := again.Check(grandchild); err == nil {
		t.Error("a server that starts again has forgotten what was revoked")
	}
	a.Revoke(must(parent.ID())(t))
	if _, err := a.Check(parent); err == nil {
		t.Error("the parent is still good")
	}
}

func TestATokenExpires(t *testing.T) {
	a := newAuthority(t, remote.NewKey())
	g := full
	g.Expires = time.Now().Add(-time.Second)
	if _, err := a.Check(must(a.Issue(g))(t)); workspace.CodeOf(err) != workspace.ErrDenied {
		t.Errorf("an expired token: %v", err)
	}
}

// TestATokenDoesNotPrint tries the ways in which a value ends up in a log.
func TestATokenDoesNotPrint(t *testing.T) {
	token := must(newAuthority(t, remote.NewKey()).Issue(full))(t)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	logger.InfoContext(context.Background(), "m", "token", token, "in", struct{ T remote.Token }{token})
	fmt.Fprintf(&log, "%v %s %q %+v %#v %v", token, token, token, token, token, errors.Join(fmt.Errorf("%v", token)))
	_, err := remote.Dial(t.Context(), "http://user:"+string(token)+"@127.0.0.1:1/", token, remote.DialOptions{})
	fmt.Fprint(&log, err)
	_, err = remote.Dial(t.Context(), "http://127.0.0.1:1/", token, remote.DialOptions{})
	fmt.Fprint(&log, err)
	for part := range strings.SplitSeq(string(token), ".") {
		if part != "wsctl1" && strings.Contains(log.String(), part) {
			t.Errorf("a log has %s in it:\n%s", part, log.String())
		}
	}
	// Kept on purpose, it is whole.
	kept, err := json.Marshal(token)
	if err != nil || string(kept) != `"`+string(token)+`"` {
		t.Errorf("in JSON it is %s, %v", kept, err)
	}
}

func FuzzToken(f *testing.F) {
	a := newAuthority(f, remote.NewKey())
	token := must(a.Issue(full))(f)
	f.Add(string(token), `{"scopes":["read"]}`)
	f.Add("wsctl1....", `{}`)
	f.Add("wsctl1."+strings.Repeat("A", 22)+"."+base64.RawURLEncoding.EncodeToString([]byte(`{}`))+"."+strings.Repeat("A", 43), `{"prefix":"a"}`)
	f.Fuzz(func(t *testing.T, text, block string) {
		if who, err := a.Check(remote.Token(text)); err == nil && text != string(token) {
			t.Errorf("%q is taken for %+v", text, who)
		}
		// Whatever a holder appends, the token never grants more.
		narrowed := remote.NarrowRaw(token, []byte(block))
		who, err := a.Check(narrowed)
		if err != nil {
			return
		}
		if len(who.Scopes) > len(full.Scopes) || who.Expires.Unix() > full.Expires.Unix() || slices.Contains(who.Scopes, remote.Admin) {
			t.Errorf("narrowed by %q it grants %+v", block, who.Grant)
		}
	})
}
