package search

import (
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// required are texts one of which is in whatever an expression matches. No
// texts: nothing is known.
type required struct {
	texts []requiredText
	// whole: the expression matches the texts and nothing else.
	whole bool
}

type requiredText struct {
	text string
	fold bool
}

// maxNeedles bounds how many texts are looked for at once.
const maxNeedles = 16

// requiredBy finds the texts that an expression needs.
func requiredBy(re *syntax.Regexp) required {
	switch re.Op {
	case syntax.OpLiteral:
		return requiredLiteral(string(re.Rune), re.Flags&syntax.FoldCase != 0)
	case syntax.OpCapture:
		return requiredBy(re.Sub[0])
	case syntax.OpPlus:
		r := requiredBy(re.Sub[0])
		r.whole = false
		return r
	case syntax.OpRepeat:
		if re.Min > 0 {
			r := requiredBy(re.Sub[0])
			r.whole = false
			return r
		}
	case syntax.OpConcat:
		best := required{}
		for _, sub := range re.Sub {
			if r := requiredBy(sub); r.score() > best.score() {
				best = r
			}
		}
		best.whole = false
		return best
	case syntax.OpAlternate:
		all := required{whole: true}
		for _, sub := range re.Sub {
			r := requiredBy(sub)
			if len(r.texts) == 0 || len(all.texts)+len(r.texts) > maxNeedles {
				return required{}
			}
			all.texts = append(all.texts, r.texts...)
			all.whole = all.whole && r.whole
		}
		return all
	}
	return required{}
}

// requiredLiteral is the best of a literal that can be compared byte by byte.
// In any case, k and s also match two characters beyond ASCII.
func requiredLiteral(text string, fold bool) required {
	if strings.ContainsRune(text, utf8.RuneError) {
		// It matches any byte that is not UTF-8.
		return required{}
	}
	if !fold {
		return required{texts: []requiredText{{text, false}}, whole: true}
	}
	best := ""
	for _, run := range strings.FieldsFunc(text, func(r rune) bool {
		return r >= utf8.RuneSelf || strings.ContainsRune("kKsS", r)
	}) {
		if score(run) > score(best) {
			best = run
		}
	}
	if best == "" {
		return required{}
	}
	return required{texts: []requiredText{{strings.ToLower(best), true}}, whole: best == text}
}

// score is how much looking for the texts saves: that of the worst of them.
func (r required) score() int {
	worst := 0
	for i, t := range r.texts {
		if s := score(t.text); i == 0 || s < worst {
			worst = s
		}
	}
	return worst
}

func score(text string) int {
	sum := 0
	for i := range len(text) {
		sum += 8 + rarity(text[i])
	}
	return sum
}

// minScore is what looking for a text must save: one very common byte alone is
// on every line.
const minScore = 20

// needles are what to look for.
func (r required) needles() []needle {
	if r.score() < minScore {
		return nil
	}
	needles := make([]needle, len(r.texts))
	for i, t := range r.texts {
		needles[i] = newNeedle(t.text, t.fold)
	}
	return needles
}
