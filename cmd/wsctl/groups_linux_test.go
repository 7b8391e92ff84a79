package main

import "testing"

// TestGroups: each verb is listed in one group of the help, but for those about
// wsctl itself, and a group names no verb that is not there.
func TestGroups(t *testing.T) {
	t.Parallel()
	groups := map[string]int{}
	for _, g := range verbGroups {
		for _, verb := range g.verbs {
			groups[verb]++
		}
	}
	for _, verb := range []string{"version", "completion", "help"} {
		groups[verb]++
	}
	real := map[string]bool{}
	for _, cmd := range newRootCommand(&app{ui: &ui{}}).Commands() {
		real[cmd.Name()] = true
		if n := groups[cmd.Name()]; n != 1 && !cmd.Hidden {
			t.Errorf("wsctl %s is in %d groups; verbGroups has them", cmd.Name(), n)
		}
	}
	for verb := range groups {
		if !real[verb] && verb != "help" {
			t.Errorf("verbGroups names %s, which is no verb", verb)
		}
	}
}
