package remote

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// Scope is a right that a token holds. None includes another: who may read may
// not therefore run commands.
type Scope string

// The scopes of a token. Commands see and change the whole workspace, so Exec
// is worth Read and Write of the files to whoever can run a program; it is still
// not needed for them.
const (
	Read  Scope = "read"  // files and snapshots
	Write Scope = "write" // change files; save, restore and delete snapshots
	Exec  Scope = "exec"  // run commands
	Admin Scope = "admin" // look after workspaces: make, stop, remove
)

// scopes are all that a token can hold.
var scopes = []Scope{Read, Write, Exec, Admin}

// AllWorkspaces in Grant.Workspaces stands for every one, also those to come.
const AllWorkspaces = "*"

// Grant is what a token allows, or, in Narrow, what is left of it.
type Grant struct {
	// Name says whose token it is, for logs.
	Name string `json:"name,omitempty"`
	// Scopes; empty in Narrow: as before.
	Scopes []Scope `json:"scopes,omitempty"`
	// Workspaces are ids; empty in Narrow: as before.
	Workspaces []string `json:"workspaces,omitempty"`
	// Prefix is a directory below the root, "src/api". Such a token reaches
	// the files below it and nothing else: no commands, no snapshots, and no
	// link that leads out of it. Empty: all files.
	Prefix string `json:"prefix,omitempty"`
	// Expires is when it ends, to the second.
	Expires time.Time `json:"-"`

	Until int64 `json:"expires,omitempty"` // Expires in a token, Unix seconds
}

// Token is a credential. It prints as "wsctl1.…": what it holds is a secret,
// and goes only where string(t) is written.
type Token string

// String does not tell the token.
func (Token) String() string { return tokenKind + ".…" }

// GoString does not tell the token.
func (t Token) GoString() string { return t.String() }

// LogValue does not tell the token.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// A token is text:
//
//	wsctl1.NONCE.BLOCK…BLOCK.SIGNATURE
//
// each part base64url. The first block is the issuer's grant, each further one
// narrows it. The signature is chained: that of the nonce is made with the
// issuer's key, that of each block with the signature before it as the key. So
// whoever holds a token can append a block, and nobody can take one away.
// (Birgisson and others, "Macaroons", 2014.)
const (
	tokenKind = "wsctl1"
	maxToken  = 4096
	maxBlocks = 8
	nonceSize = 16
)

// parsed is a token taken apart. Its signature is not checked.
type parsed struct {
	nonce     []byte
	blocks    [][]byte
	signature []byte
}

func badToken(reason string) error {
	return workspace.Errorf(workspace.ErrDenied, "token", "", "the token is no good: %s", reason)
}

func parseToken(t Token) (*parsed, error) {
	if len(t) > maxToken {
		return nil, badToken("it is too long")
	}
	parts := strings.Split(string(t), ".")
	if len(parts) < 4 || len(parts) > 3+maxBlocks || parts[0] != tokenKind {
		return nil, badToken("it is not one of this server's kind")
	}
	decoded := make([][]byte, len(parts)-1)
	for i, part := range parts[1:] {
		b, err := base64Strict.DecodeString(part)
		if err != nil {
			return nil, badToken("it is damaged")
		}
		decoded[i] = b
	}
	last := len(decoded) - 1
	p := &parsed{nonce: decoded[0], blocks: decoded[1:last], signature: decoded[last]}
	if len(p.nonce) != nonceSize || len(p.signature) != sha256.Size {
		return nil, badToken("it is damaged")
	}
	return p, nil
}

func (p *parsed) token() Token {
	parts := []string{tokenKind, base64Strict.EncodeToString(p.nonce)}
	for _, b := range p.blocks {
		parts = append(parts, base64Strict.EncodeToString(b))
	}
	return Token(strings.Join(append(parts, base64Strict.EncodeToString(p.signature)), "."))
}

func sign(key, message []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(message)
	return mac.Sum(nil)
}

// idOf is the id of a token by its signature, which it does not tell.
func idOf(signature []byte) string {
	sum := sha256.Sum256(signature)
	return hex.EncodeToString(sum[:16])
}

// ID is what a token is revoked by, and may be written down. That it is one of
// the server's own is not checked.
func (t Token) ID() (string, error) {
	p, err := parseToken(t)
	if err != nil {
		return "", err
	}
	return idOf(p.signature), nil
}

// Narrow returns a token that allows what t does and g does. It needs no server
// and no key. Revoking t revokes it too.
func (t Token) Narrow(g Grant) (Token, error) {
	p, err := parseToken(t)
	if err != nil {
		return "", err
	}
	block, err := g.block()
	if err != nil {
		return "", err
	}
	if len(p.blocks) == maxBlocks {
		return "", workspace.Errorf(workspace.ErrTooLarge, "token", "", "the token was narrowed %d times, which is the most; narrow one that it was made from", maxBlocks-1)
	}
	p.blocks = append(p.blocks, block)
	p.signature = sign(p.signature, block)
	narrowed := p.token()
	if len(narrowed) > maxToken {
		return "", workspace.Errorf(workspace.ErrTooLarge, "token", "", "the token would have %d bytes; the limit is %d", len(narrowed), maxToken)
	}
	return narrowed, nil
}

// block is g as it stands in a token.
func (g Grant) block() ([]byte, error) {
	for _, s := range g.Scopes {
		if !slices.Contains(scopes, s) {
			return nil, workspace.Errorf(workspace.ErrInvalidArgument, "token", "", "there is no scope %q; there are read, write, exec and admin", s)
		}
	}
	for _, id := range g.Workspaces {
		if id != AllWorkspaces && !ValidID(id) {
			return nil, workspace.Errorf(workspace.ErrInvalidArgument, "token", "", "%q is no workspace's id", id)
		}
	}
	prefix, err := cleanPrefix(g.Prefix)
	if err != nil {
		return nil, err
	}
	g.Prefix = prefix
	if !g.Expires.IsZero() {
		g.Until = g.Expires.Unix()
	}
	if g.Until < 0 || len(g.Name) > maxName {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "token", "", "the name is too long or the time of the end lies before 1970")
	}
	return json.Marshal(g)
}

// cleanPrefix is a prefix in its one spelling.
func cleanPrefix(p string) (string, error) {
	if p == "" || p == "." {
		return "", nil
	}
	p = strings.Trim(strings.TrimPrefix(p, "./"), "/")
	text, err := json.Marshal(p)
	var back string
	if err != nil || json.Unmarshal(text, &back) != nil || back != p || len(p) > 1024 {
		return "", workspace.Errorf(workspace.ErrInvalidPath, "token", p, "a token's prefix is UTF-8 of at most 1024 bytes")
	}
	for part := range strings.SplitSeq(p, "/") {
		if !validName(part) {
			return "", workspace.Errorf(workspace.ErrInvalidPath, "token", p, `a token's prefix is a directory below the root, without "." and ".."`)
		}
	}
	return p, nil
}

// grant is what all blocks allow together.
func (p *parsed) grant() (Grant, error) {
	var all Grant
	for i, raw := range p.blocks {
		var g Grant
		// A field that is not known could be a restriction that is not
		// known, so it ends the token's use.
		if err := decodeStrict(raw, &g); err != nil {
			return Grant{}, badToken("it holds what this server does not understand")
		}
		if prefix, err := cleanPrefix(g.Prefix); err != nil || prefix != g.Prefix || g.Until < 0 {
			return Grant{}, badToken("it holds what this server does not understand")
		}
		if i == 0 {
			if len(g.Scopes) == 0 || len(g.Workspaces) == 0 || g.Until == 0 {
				return Grant{}, badToken("it grants nothing")
			}
			all = g
			continue
		}
		if err := all.narrow(g); err != nil {
			return Grant{}, err
		}
	}
	all.Expires = time.Unix(all.Until, 0)
	return all, nil
}

func (g *Grant) narrow(by Grant) error {
	if by.Name != "" {
		g.Name += "/" + by.Name
	}
	if len(by.Scopes) > 0 {
		g.Scopes = slices.DeleteFunc(slices.Clone(g.Scopes), func(s Scope) bool { return !slices.Contains(by.Scopes, s) })
	}
	switch {
	case len(by.Workspaces) == 0 || slices.Contains(by.Workspaces, AllWorkspaces):
	case slices.Contains(g.Workspaces, AllWorkspaces):
		g.Workspaces = by.Workspaces
	default:
		g.Workspaces = slices.DeleteFunc(slices.Clone(g.Workspaces), func(id string) bool { return !slices.Contains(by.Workspaces, id) })
	}
	switch {
	case by.Prefix == "", below(g.Prefix, by.Prefix):
	case below(by.Prefix, g.Prefix):
		g.Prefix = by.Prefix
	default:
		return badToken("it was narrowed to two directories that have nothing in common")
	}
	if by.Until > 0 {
		g.Until = min(g.Until, by.Until)
	}
	return nil
}

// below reports whether a directory is prefix or lies below it.
func below(dir, prefix string) bool {
	return prefix == "" || dir == prefix || strings.HasPrefix(dir, prefix+"/")
}

// has reports whether g holds every one of needed.
func (g Grant) has(needed ...Scope) bool {
	for _, s := range needed {
		if !slices.Contains(g.Scopes, s) {
			return false
		}
	}
	return true
}

// Covers reports whether g reaches the workspace with that id.
func (g Grant) Covers(id string) bool {
	return slices.Contains(g.Workspaces, AllWorkspaces) || slices.Contains(g.Workspaces, id)
}

// ValidID reports whether id can be a workspace's id on the wire: at most 128
// letters, digits, '-', '_' and '.', not beginning with '.'.
func ValidID(id string) bool {
	if id == "" || id[0] == '.' || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		if !plainByte(id[i]) {
			return false
		}
	}
	return true
}
