package remote

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// KeySize is the size of an Authority's key, in bytes.
const KeySize = 32

// Authority issues tokens, checks them and revokes them. Its methods are safe
// for concurrent use. The key and the list of what was revoked are its state;
// whoever makes it keeps them, the key readable to its owner alone.
type Authority struct {
	key []byte

	mu      sync.Mutex
	revoked map[string]bool
	// inUse are the ends of the requests under way, by the ids of their
	// tokens.
	inUse map[string]map[*use]struct{}
}

// use is a request under way.
type use struct{ end context.CancelCauseFunc }

// NewKey makes a key.
func NewKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // it never fails (crypto/rand)
	return key
}

// NewAuthority returns the authority of a key. revoked are ids that no longer
// count.
func NewAuthority(key []byte, revoked ...string) (*Authority, error) {
	if len(key) != KeySize {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "token", "", "the key has %d bytes; make one of %d with NewKey", len(key), KeySize)
	}
	a := &Authority{key: slices.Clone(key), revoked: map[string]bool{}, inUse: map[string]map[*use]struct{}{}}
	for _, id := range revoked {
		a.revoked[id] = true
	}
	return a, nil
}

// Issue makes a token. Scopes, Workspaces and Expires must be given.
func (a *Authority) Issue(g Grant) (Token, error) {
	if len(g.Scopes) == 0 || len(g.Workspaces) == 0 || g.Expires.IsZero() {
		return "", workspace.Errorf(workspace.ErrInvalidArgument, "token", "", "a token needs scopes, workspaces and a time when it ends")
	}
	block, err := g.block()
	if err != nil {
		return "", err
	}
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce)
	p := &parsed{nonce: nonce, blocks: [][]byte{block}, signature: sign(sign(a.key, nonce), block)}
	t := p.token()
	if len(t) > maxToken {
		return "", workspace.Errorf(workspace.ErrTooLarge, "token", "", "the token would have %d bytes; the limit is %d", len(t), maxToken)
	}
	return t, nil
}

// Revoke ends tokens, by their ids, and all that were narrowed from them.
// Requests under way with them end now.
func (a *Authority) Revoke(ids ...string) {
	a.mu.Lock()
	var ending []*use
	for _, id := range ids {
		a.revoked[id] = true
		ending = slices.AppendSeq(ending, maps.Keys(a.inUse[id]))
	}
	a.mu.Unlock()
	for _, u := range ending {
		u.end(errRevoked)
	}
}

// Revoked lists what was revoked, sorted.
func (a *Authority) Revoked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.revoked))
}

var (
	errRevoked = errors.New("the token was revoked")
	errExpired = errors.New("the token has expired")
)

// Identity is who a request is from.
type Identity struct {
	Grant
	// Token is the id of the token; empty: there is none.
	Token string
}

// Check returns what a token allows now.
func (a *Authority) Check(t Token) (Identity, error) {
	id, _, err := a.check(t)
	return id, err
}

func (a *Authority) check(t Token) (Identity, []string, error) {
	p, err := parseToken(t)
	if err != nil {
		return Identity{}, nil, err
	}
	signature := sign(a.key, p.nonce)
	ids := make([]string, 0, len(p.blocks))
	for _, b := range p.blocks {
		signature = sign(signature, b)
		ids = append(ids, idOf(signature))
	}
	// Nothing that a block says counts before this.
	if !hmac.Equal(signature, p.signature) {
		return Identity{}, nil, badToken("it was not issued by this server")
	}
	g, err := p.grant()
	if err != nil {
		return Identity{}, nil, err
	}
	if !time.Now().Before(g.Expires) {
		return Identity{}, nil, badToken(errExpired.Error())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if a.revoked[id] {
			return Identity{}, nil, badToken(errRevoked.Error())
		}
	}
	return Identity{Grant: g, Token: ids[len(ids)-1]}, ids, nil
}

// admit checks t and returns a context that ends with it. done must follow.
func (a *Authority) admit(ctx context.Context, t Token) (_ Identity, _ context.Context, done func(), err error) {
	who, ids, err := a.check(t)
	if err != nil {
		return Identity{}, nil, nil, err
	}
	ctx, stop := context.WithDeadlineCause(ctx, who.Expires, errExpired)
	ctx, end := context.WithCancelCause(ctx)
	u := &use{end: end}
	a.mu.Lock()
	for _, id := range ids {
		if a.revoked[id] { // since it was checked
			end(errRevoked)
		}
		if a.inUse[id] == nil {
			a.inUse[id] = map[*use]struct{}{}
		}
		a.inUse[id][u] = struct{}{}
	}
	a.mu.Unlock()
	return who, ctx, func() {
		a.mu.Lock()
		for _, id := range ids {
			delete(a.inUse[id], u)
			if len(a.inUse[id]) == 0 {
				delete(a.inUse, id)
			}
		}
		a.mu.Unlock()
		end(nil)
		stop()
	}, nil
}
