package tools

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// commandLine is what can be told of a shell text without running it.
type commandLine struct {
	// calls are the simple commands in it, wherever they stand, each with its
	// words up to the first that only the shell knows.
	calls [][]string
	// obscure is why the calls are not all that it runs, or do more than
	// they say; empty: they are, joined by ;, &&, ||, | and line ends.
	obscure string
}

// parseCommandLine reads a shell text.
func parseCommandLine(text string) commandLine {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil {
		return commandLine{obscure: "it cannot be read as shell"}
	}
	var l commandLine
	for _, s := range f.Stmts {
		l.plainStmt(s)
	}
	if l.obscure == "" {
		return l
	}
	// Whatever is in it, at any depth.
	l.calls = nil
	syntax.Walk(f, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok {
			if words, _ := literals(call.Args); len(words) > 0 {
				l.calls = append(l.calls, words)
			}
		}
		return true
	})
	return l
}

// plainStmt adds a statement that is plain, and says what makes another one
// obscure.
func (l *commandLine) plainStmt(s *syntax.Stmt) {
	switch {
	case s.Background || s.Coprocess || s.Disown:
		l.obscure = "it runs something in the background"
	case s.Negated:
		l.obscure = "it negates a status"
	case !slices.ContainsFunc(s.Redirs, func(r *syntax.Redirect) bool { return !harmless(r) }):
		l.plainCommand(s.Cmd)
	default:
		l.obscure = "it redirects to or from a file"
	}
}

func (l *commandLine) plainCommand(c syntax.Command) {
	switch c := c.(type) {
	case *syntax.BinaryCmd:
		l.plainStmt(c.X)
		l.plainStmt(c.Y)
	case *syntax.CallExpr:
		words, whole := literals(c.Args)
		switch {
		case len(c.Assigns) > 0:
			l.obscure = "it sets a variable"
		case !whole || len(words) == 0:
			l.obscure = "it has an expansion, a pattern or an escape in it"
		case interprets(words):
			l.obscure = "it hands text to a shell to run"
		default:
			l.calls = append(l.calls, words)
		}
	default:
		l.obscure = "it is more than simple commands"
	}
}

// harmless reports whether a redirection touches no file: 2>&1, >/dev/null.
func harmless(r *syntax.Redirect) bool {
	if r.Word == nil || r.Hdoc != nil {
		return false
	}
	to := r.Word.Lit()
	switch r.Op {
	case syntax.DplOut:
		return to == "1" || to == "2"
	case syntax.RdrOut, syntax.RdrIn:
		return to == "/dev/null"
	}
	return false
}

// interprets reports whether a command runs its words as shell text.
func interprets(words []string) bool {
	switch path.Base(words[0]) {
	case "eval", ".", "source", "alias", "trap":
		return true
	case "sh", "bash", "dash", "ash", "ksh", "zsh":
		return len(words) > 1 && strings.HasPrefix(words[1], "-")
	}
	return false
}

// literals returns the words up to the first that the shell would change; whole:
// there is none.
func literals(args []*syntax.Word) (words []string, whole bool) {
	for _, w := range args {
		s, ok := literal(w)
		if !ok {
			return words, false
		}
		words = append(words, s)
	}
	return words, true
}

// literal is the text of a word that the shell takes as it is written.
func literal(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(part.Value, "*?[]{}~\\$`!") {
				return "", false
			}
			b.WriteString(part.Value)
		case *syntax.SglQuoted:
			if part.Dollar {
				return "", false
			}
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			if part.Dollar {
				return "", false
			}
			for _, in := range part.Parts {
				lit, ok := in.(*syntax.Lit)
				if !ok || strings.ContainsAny(lit.Value, "\\$`!") {
					return "", false
				}
				b.WriteString(lit.Value)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// runners are commands that run the command in their arguments.
var runners = []string{"env", "command", "exec", "builtin", "nohup", "nice", "time", "timeout", "xargs", "sudo", "stdbuf", "setsid", "busybox", "find", "chroot", "unshare"}

// begins reports whether a call begins with the words of a prefix.
func begins(call, prefix []string) bool {
	return len(call) >= len(prefix) && slices.Equal(call[:len(prefix)], prefix)
}

// mayRun reports whether a call may be what a prefix forbids: named by its path,
// or run by another command.
func mayRun(call, prefix []string) bool {
	for i := range call {
		named := slices.Clone(call[i:])
		named[0] = path.Base(named[0])
		if begins(named, prefix) || begins(call[i:], prefix) {
			return true
		}
		if !slices.Contains(runners, path.Base(call[0])) {
			return false
		}
	}
	return false
}
