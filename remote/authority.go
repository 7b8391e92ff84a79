package remote

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
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
	// good are tokens whose signature was found to be right, by a hash that
	// does not tell them. What can change (time, revocation) is not in it.
	good map[[sha256.Size]byte]*checked
	// inUse are the requests under way.
	inUse map[*use]struct{}
}

// checked is what a token with a good signature says.
type checked struct {
	who Identity
	ids []string // its own and those that it was narrowed from
}

// maxGood bounds what is remembered.
const maxGood = 1024

// use is a request under way.
type use struct {
	ids []string
	end context.CancelCauseFunc
}

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
	a := &Authority{
		key: slices.Clone(key), revoked: map[string]bool{},
		good: map[[sha256.Size]byte]*checked{}, inUse: map[*use]struct{}{},
	}
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
	}
	for u := range a.inUse {
		if a.isRevoked(u.ids) {
			ending = append(ending, u)
		}
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
	a.mu.Lock()
	defer a.mu.Unlock()
	c, err := a.check(t)
	if err != nil {
		return Identity{}, err
	}
	return c.who, nil
}

// isRevoked reports whether one of ids was revoked; a.mu is held.
func (a *Authority) isRevoked(ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return a.revoked[id] })
}

// check returns what a token says if it is good now; a.mu is held.
func (a *Authority) check(t Token) (*checked, error) {
	if len(t) > maxToken {
		return nil, badToken("it is too long")
	}
	sum := sha256.Sum256([]byte(t))
	c := a.good[sum]
	if c == nil {
		var err error
		if c, err = a.verify(t); err != nil {
			return nil, err
		}
		if len(a.good) >= maxGood {
			clear(a.good)
		}
		a.good[sum] = c
	}
	switch {
	case !time.Now().Before(c.who.Expires):
		return nil, badToken(errExpired.Error())
	case a.isRevoked(c.ids):
		return nil, badToken(errRevoked.Error())
	}
	return c, nil
}

// verify checks the signature of a token and reads it.
func (a *Authority) verify(t Token) (*checked, error) {
	p, err := parseToken(t)
	if err != nil {
		return nil, err
	}
	signature := sign(a.key, p.nonce)
	ids := make([]string, 0, len(p.blocks))
	for _, b := range p.blocks {
		signature = sign(signature, b)
		ids = append(ids, idOf(signature))
	}
	// Nothing that a block says counts before this.
	if !hmac.Equal(signature, p.signature) {
		return nil, badToken("it was not issued by this server")
	}
	g, err := p.grant()
	if err != nil {
		return nil, err
	}
	return &checked{Identity{Grant: g, Token: ids[len(ids)-1]}, ids}, nil
}

// admit checks t and registers a request with it, which end ends when the token
// is revoked or expires. done must follow.
func (a *Authority) admit(t Token, end context.CancelCauseFunc) (_ Identity, done func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, err := a.check(t)
	if err != nil {
		return Identity{}, nil, err
	}
	u := &use{c.ids, end}
	a.inUse[u] = struct{}{}
	expiry := time.AfterFunc(time.Until(c.who.Expires), func() { end(errExpired) })
	return c.who, func() {
		expiry.Stop()
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.inUse, u)
	}, nil
}
