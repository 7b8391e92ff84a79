// Package search looks for things in the tree of a workspace: List and Glob find
// entries by name, Grep finds lines by content.
//
// The three walk alike. They begin at a path that the caller names, follow it
// when it is a link that stays inside, and follow no other link. They leave out
//
//   - hidden entries, whose name begins with a dot, unless Scope.Hidden is set or
//     the pattern has a dot at that very place;
//   - what a .gitignore in the tree or .git/info/exclude ignores, unless
//     Scope.NoIgnore is set, and with it the directory .git itself;
//   - the workspace's own state, always.
//
// What the caller names is looked at, whatever the rules say of it; they then
// hold below. A result says how many entries were left out, and why, so that
// "nothing found" means that nothing is there. Results come in the byte order
// of their paths, the same at every call over the same tree.
//
// Files are read through workspace.HeldDir: nothing outside the root is ever listed
// or read, whoever changes the tree at the same time.
package search
