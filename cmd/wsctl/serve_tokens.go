//go:build unix

package main

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// The files of a server's tokens: the key that signs them, and what was issued and
// revoked. No token is kept.
const (
	keyFile    = "token.key"
	tokensFile = "tokens.json"
)

// forgetAfter is how long after its end a token is still listed.
const forgetAfter = 30 * 24 * time.Hour

// tokenBook issues a server's tokens and remembers which there are.
type tokenBook struct {
	dir        privateDir
	authority  *remote.Authority
	workspaces *orchestrator.Orchestrator

	mu     sync.Mutex
	issued []issuedToken // guarded by mu
}

// issuedToken is a token as it is listed.
type issuedToken struct {
	ID         string         `json:"id"`
	Name       string         `json:"name,omitempty"`
	Scopes     []remote.Scope `json:"scopes"`
	Workspaces []string       `json:"workspaces"`
	Prefix     string         `json:"prefix,omitempty"`
	Created    time.Time      `json:"created"`
	Expires    time.Time      `json:"expires"`
	Revoked    bool           `json:"revoked"`
}

// tokenWish asks for a token. Workspaces are ids or names; none: all.
type tokenWish struct {
	Name       string         `json:"name,omitempty"`
	Scopes     []remote.Scope `json:"scopes"`
	Workspaces []string       `json:"workspaces,omitempty"`
	Prefix     string         `json:"prefix,omitempty"`
	Expires    time.Time      `json:"expires"`
}

// newToken is a token that was issued, with the secret, this once.
type newToken struct {
	issuedToken
	Token string `json:"token"`
}

// tokenList and revokedTokens are other messages about tokens.
type (
	tokenList struct {
		Tokens []issuedToken `json:"tokens"`
	}
	tokenIDs struct {
		IDs []string `json:"ids"`
	}
)

// tokensPath is where a server's owner looks after its tokens.
const tokensPath = "/v1/tokens"

// tokenRecord is what tokensFile holds.
type tokenRecord struct {
	Issued  []issuedToken `json:"issued"`
	Revoked []string      `json:"revoked"`
}

// openTokenBook opens the book of a server's directory; the key is made when there
// is none.
func openTokenBook(ctx context.Context, dir string, workspaces *orchestrator.Orchestrator) (*tokenBook, error) {
	d, err := makePrivate(dir)
	if err != nil {
		return nil, err
	}
	b := &tokenBook{dir: d, workspaces: workspaces}
	if err := b.load(ctx); err != nil {
		d.close()
		return nil, err
	}
	return b, nil
}

func (b *tokenBook) load(ctx context.Context) error {
	var k tokenRecord
	if err := b.dir.readJSON(ctx, tokensFile, &k); err != nil {
		return err
	}
	key, err := b.dir.read(ctx, keyFile)
	if errors.Is(err, workspace.ErrNotFound) {
		key = remote.NewKey()
		err = b.dir.write(ctx, keyFile, key)
	}
	if err != nil {
		return err
	}
	b.issued = k.Issued
	b.authority, err = remote.NewAuthority(key, k.Revoked...)
	return err
}

func (b *tokenBook) close() { b.dir.close() }

// keep writes the book; mu is held.
func (b *tokenBook) keep(ctx context.Context, issued []issuedToken, revoked []string) error {
	return b.dir.writeJSON(ctx, tokensFile, tokenRecord{issued, revoked})
}

// issue makes a token, and returns it once that is on the disk.
func (b *tokenBook) issue(ctx context.Context, wish tokenWish) (newToken, error) {
	ids := []string{}
	for _, ref := range wish.Workspaces {
		w, err := b.workspaces.Get(ref)
		if err != nil {
			return newToken{}, err
		}
		ids = append(ids, w.ID)
	}
	if len(ids) == 0 {
		ids = []string{remote.AllWorkspaces}
	}
	g := remote.Grant{Name: wish.Name, Scopes: wish.Scopes, Workspaces: ids, Prefix: wish.Prefix, Expires: wish.Expires}
	t, err := b.authority.Issue(g)
	if err != nil {
		return newToken{}, err
	}
	id, err := t.ID()
	if err != nil {
		return newToken{}, err
	}
	now := time.Now().UTC().Truncate(time.Second)
	made := issuedToken{
		ID: id, Name: g.Name, Scopes: g.Scopes, Workspaces: ids, Prefix: g.Prefix, Created: now, Expires: g.Expires.UTC().Truncate(time.Second),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	issued := slices.DeleteFunc(slices.Clone(b.issued), func(t issuedToken) bool { return now.Sub(t.Expires) > forgetAfter })
	issued = append(issued, made)
	if err := b.keep(ctx, issued, b.authority.Revoked()); err != nil {
		return newToken{}, err
	}
	b.issued = issued
	return newToken{made, string(t)}, nil
}

// revoke ends tokens. One that was narrowed from another was never seen here, so
// any id is taken; the beginning of one that is listed is enough.
func (b *tokenBook) revoke(ctx context.Context, refs []string) (ids []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]bool{}
	for _, id := range b.authority.Revoked() {
		all[id] = true
	}
	for _, ref := range refs {
		id, err := b.find(ref)
		if err != nil {
			return nil, err
		}
		all[id] = true
		ids = append(ids, id)
	}
	// On the disk first: a token that was told to be revoked stays so.
	if err := b.keep(ctx, b.issued, slices.Sorted(maps.Keys(all))); err != nil {
		return nil, err
	}
	b.authority.Revoke(ids...)
	return ids, nil
}

// tokenIDLength is the length of a token's id, in characters.
const tokenIDLength = 32

// find is the id that ref names; mu is held.
func (b *tokenBook) find(ref string) (string, error) {
	if len(ref) == tokenIDLength && strings.Trim(ref, "0123456789abcdef") == "" {
		return ref, nil
	}
	var found []string
	for _, t := range b.issued {
		if len(ref) >= 4 && strings.HasPrefix(t.ID, ref) {
			found = append(found, t.ID)
		}
	}
	if len(found) != 1 {
		return "", workspace.Errorf(workspace.ErrNotFound, "token", ref, "%d tokens have ids that begin so; wsctl token ls lists them", len(found))
	}
	return found[0], nil
}

func (b *tokenBook) list() []issuedToken {
	b.mu.Lock()
	defer b.mu.Unlock()
	revoked := b.authority.Revoked()
	list := slices.Clone(b.issued)
	for i := range list {
		_, list[i].Revoked = slices.BinarySearch(revoked, list[i].ID)
	}
	return list
}

// routes are for the server's owner: whoever could make tokens could have any.
func (b *tokenBook) routes() []remote.Route {
	return []remote.Route{
		{Method: "GET", Path: tokensPath, Owner: true, Serve: func(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
			return c.Reply(w, r, func() (any, error) { return tokenList{append([]issuedToken{}, b.list()...)}, nil })
		}},
		{Method: "POST", Path: tokensPath, Owner: true, Serve: func(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
			var wish tokenWish
			if err := c.ReadJSON(w, r, &wish); err != nil {
				return err
			}
			return c.Reply(w, r, func() (any, error) { return b.issue(r.Context(), wish) })
		}},
		{Method: "POST", Path: tokensPath + "/revoke", Owner: true, Serve: func(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
			var which tokenIDs
			if err := c.ReadJSON(w, r, &which); err != nil {
				return err
			}
			return c.Reply(w, r, func() (any, error) {
				ids, err := b.revoke(r.Context(), which.IDs)
				return tokenIDs{ids}, err
			})
		}},
	}
}
