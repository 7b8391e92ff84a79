//go:build unix

package integration

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	helpVerb   = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`)
	helpFlag   = regexp.MustCompile(`(?m)^ {2,6}(?:-\w, )?(--[a-z-]+)`)
	docFlag    = regexp.MustCompile("`(?:-\\w`, `)?(--[a-z-]+)")
	docHeading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	docLink    = regexp.MustCompile(`\(#([a-z-]+)\)`)
)

// docs/cli.md has a section for each verb, and in it, or in one that it refers to,
// each of its flags; it has no flag that is none.
func TestTheReferenceHasEveryVerbAndFlag(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile("../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{} // by anchor
	headings := docHeading.FindAllStringSubmatchIndex(string(body), -1)
	for i, h := range headings {
		end := len(body)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		anchor := strings.ReplaceAll(strings.ToLower(string(body[h[2]:h[3]])), " ", "-")
		sections[anchor] = string(body[h[1]:end])
	}
	real := map[string]bool{}
	verbs, flags := 0, 0
	var visit func(path []string)
	visit = func(path []string) {
		help := run(t, append(path, "--help")...).must(t).stdout
		heading := "\nAvailable Commands:\n"
		if len(path) == 0 {
			heading = "\nSandboxes:\n" // the first group of verbs
		}
		_, commands, _ := strings.Cut(help, heading)
		commands, _, _ = strings.Cut(commands, "\nFlags:")
		_, options, _ := strings.Cut(help, "\nFlags:\n")
		section, ok := sections["wsctl-"+strings.Join(path, "-")]
		if len(path) > 0 && !ok {
			t.Errorf("docs/cli.md has no section on wsctl %s", strings.Join(path, " "))
		}
		for _, link := range docLink.FindAllStringSubmatch(section, -1) {
			linked, ok := sections[link[1]]
			if !ok {
				t.Errorf("docs/cli.md: there is no section %s", link[1])
			}
			section += linked
		}
		for _, flag := range helpFlag.FindAllStringSubmatch(options, -1) {
			real[flag[1]] = true
			flags++
			if len(path) > 0 && flag[1] != "--help" && !strings.Contains(section, "`"+flag[1]) {
				t.Errorf("docs/cli.md does not say what %s of wsctl %s is", flag[1], strings.Join(path, " "))
			}
		}
		for _, verb := range helpVerb.FindAllStringSubmatch(commands, -1) {
			if verb[1] == "help" {
				continue
			}
			verbs++
			visit(append(path[:len(path):len(path)], verb[1]))
		}
	}
	visit(nil)
	if verbs < 10 || flags < 50 {
		t.Errorf("only %d verbs and %d flags were found in the help texts", verbs, flags)
	}
	for _, flag := range docFlag.FindAllStringSubmatch(string(body), -1) {
		if !real[flag[1]] {
			t.Errorf("docs/cli.md tells of %s, which no verb has", flag[1])
		}
	}
}
