//go:build unix

package drivertest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func pathCases() []testCase {
	return []testCase{
		{name: "spellings", run: spellings, rule: "A path may be spelled relative, with dots and slashes, or absolute below Root; all lead to the same file."},
		{name: "real root", run: realRoot, rule: "Where the root has a second real spelling, absolute paths work under both."},
		{name: "plain names", run: plainNames, rule: "~, %2e%2e, a\\..\\b and other odd names are plain names, nothing is unescaped or expanded."},
		{name: "invalid", run: invalidPaths, rule: "Empty, NUL, over-long: INVALID_PATH; the longest name works."},
		{name: "outside by name", run: outsideByName, rule: "Whatever lands outside by its name is OUTSIDE_ROOT for every verb, nothing is created."},
		{name: "sibling", run: sibling, rule: "A neighbour whose name begins with the root's is outside."},
		{name: "links inside", run: linksInside, rule: "A link is followed where it stays inside: relative, absolute below Root, in chains, and as commands follow it."},
		{name: "links outside", run: linksOutside, rule: "A link that leads out, absolute, relative, chained or dangling, is OUTSIDE_ROOT for every verb and for a command's Dir."},
		{name: "links of commands", run: linksOfCommands, rule: "A link that a command makes is refused like any other."},
		{name: "link loops", run: linkLoops, rule: "A loop of links is INVALID_PATH at once; a short chain is followed, an endless one not."},
		{name: "dots after link", run: dotsAfterLink, rule: "\"..\" after a link means what the kernel says it means."},
		{name: "dangling", run: danglingLinks, rule: "Nothing is made through a dangling link."},
		{name: "swapped directory", run: swappedDirectory, rule: "A directory swapped for a link while it is used never leads out.", limit: 30 * time.Second},
	}
}

func spellings(t *checker) {
	t.write("a/f", "content")
	t.must(t.ws.Mkdir(t.ctx, t.path("b"), workspace.MkdirOptions{}))
	root := t.ws.Root()
	for _, p := range []string{
		t.path("a/f"), "./" + t.path("a/f"), t.path("a/./f"), t.path("a//f"), t.path("b/../a/f"), t.path("a/../a/f"),
		t.abs("a/f"), root + "//" + t.path("a/f"), "//" + strings.TrimPrefix(t.abs("a/f"), "/"), t.abs("b/../a/f"), root + "/./" + t.path("a/f"),
	} {
		data, err := t.ws.ReadFile(t.ctx, p, 0)
		if err != nil || string(data) != "content" {
			t.Errorf("%q: %q, %v", p, data, err)
		}
		dir := strings.TrimSuffix(p, "/f")
		out, err := t.exec(workspace.Command{Shell: "cat f", Dir: dir})
		if err != nil || string(out.Stdout) != "content" {
			t.Errorf("a command in %q: %v%s", dir, err, told(out))
		}
	}
	want, err := t.ws.Stat(t.ctx, ".")
	t.must(err)
	for _, p := range []string{".", "./", "./.", root, root + "/", root + "/.", t.path("..") + strings.Repeat("/..", strings.Count(t.path("x"), "/")-1), "/" + root} {
		fi, err := t.ws.Stat(t.ctx, p)
		if err != nil || fi.Sys().(*workspace.FileStat).ID != want.Sys().(*workspace.FileStat).ID {
			t.Errorf("%q is not the root: %v", p, err)
		}
	}
	_, err = t.ws.Stat(t.ctx, t.path("missing/../a"))
	t.wantCode("missing/../a", err, workspace.ErrNotFound)
	_, err = t.ws.Stat(t.ctx, t.path("a/f/../f"))
	t.wantCode("a/f/../f", err, workspace.ErrNotDirectory)
}

func realRoot(t *checker) {
	t.write("f", "content")
	real := t.ws.Root()
	if r, ok := t.ws.Driver().(workspace.Realer); ok {
		real = r.Real()
	}
	data, err := t.ws.ReadFile(t.ctx, real+"/"+t.path("f"), 0)
	if err != nil || string(data) != "content" {
		t.Errorf("under %q: %q, %v", real, data, err)
	}
	if got := t.pwd("."); got != real+"\n" {
		t.Errorf("a command's real directory is %q, the root's %q", got, real)
	}
}

func plainNames(t *checker) {
	for _, name := range []string{
		"~", "~root", "%2e%2e", `a\..\b`, "...", " ", "-rf", "--", "a\nb", "*", "?", "[id]", "$(touch pwned)", "`id`", "'; touch pwned; '",
		"é", "e\u0301", "\xff", "\x01", "\u202e", "con", strings.Repeat("n", 255), "$HOME", "a{b}.txt", ". .", "..a",
	} {
		t.write("d/"+name, name)
		t.wantFile("d/"+name, name)
		out := t.run(workspace.Command{Args: []string{"cat", "--", "d/" + name}})
		t.wantOut(fmt.Sprintf("cat %q", name), out, 0, name, "")
		t.must(t.ws.Rename(t.ctx, t.path("d/"+name), t.path("e"), workspace.RenameOptions{}))
		t.must(t.ws.Rename(t.ctx, t.path("e"), t.path("d/"+name), workspace.RenameOptions{}))
		t.must(t.ws.Remove(t.ctx, t.path("d/"+name), workspace.RemoveOptions{}))
	}
	t.wantGone("pwned")
	t.wantGone("d/pwned")
}

func invalidPaths(t *checker) {
	long := strings.Repeat("n", 255)
	for _, p := range []string{"", "a\x00b", "\x00", t.abs("a\x00"), t.path(long + "n"), strings.Repeat("a/", 2500) + "a"} {
		for verb, call := range t.verbs(t.ctx, p, t.path("other")) {
			t.wantCode(fmt.Sprintf("%s %.20q", verb, p), call(), workspace.ErrInvalidPath)
		}
	}
	if got := t.names(); len(got) != 0 {
		t.Errorf("the directory holds %q", got)
	}
	t.write(long, "x")
	t.wantFile(long, "x")
	// Short enough to say, too deep to be.
	_, err := t.ws.Stat(t.ctx, strings.Repeat("a/", 2000)+"a")
	t.wantCode("a long path to nothing", err, workspace.ErrNotFound)
}

// everyVerbOutside tries every verb on a path that leads outside.
func (t *checker) everyVerbOutside(p string) {
	t.Helper()
	t.write("mine", "mine")
	for verb, call := range t.verbs(t.ctx, p, t.path("mine")) {
		codes := []workspace.Code{workspace.ErrOutside}
		if verb == "Symlink" && (strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.")) {
			codes = append(codes, workspace.ErrInvalidPath) // no link can have such a name
		}
		t.wantCode(fmt.Sprintf("%s %q", verb, p), call(), codes...)
	}
	t.wantFile("mine", "mine")
	out, err := t.exec(workspace.Command{Args: []string{"pwd"}, Dir: p})
	t.wantCode(fmt.Sprintf("a command in %q%s", p, told(out)), err, workspace.ErrOutside)
}

func outsideByName(t *checker) {
	t.must(t.ws.Mkdir(t.ctx, t.path("a"), workspace.MkdirOptions{}))
	up := strings.TrimSuffix(strings.Repeat("../", strings.Count(t.path("x"), "/")+1), "/") // from the case's directory
	root := t.ws.Root()
	for _, p := range []string{
		"..", "../", "../x", "./..", "../../../../../../etc/passwd", t.path("a/../" + up), t.path(up + "/x"),
		"/", "/etc/passwd", "//x", root + "/..", root + "/../x", root + "x", root + "x/f", root + "/../" + filepath.Base(root) + "x", filepath.Dir(root),
	} {
		t.everyVerbOutside(p)
	}
}

func sibling(t *checker) {
	t = t.fresh(workspace.Options{})
	if t.host == "" {
		t.everyVerbOutside(t.ws.Root() + "-evil/f")
		return
	}
	evil := t.host + "-evil"
	t.must(os.Mkdir(evil, 0o755))
	t.Cleanup(func() { os.RemoveAll(evil) })
	t.must(os.WriteFile(evil+"/f", []byte("secret"), 0o644))
	base := filepath.Base(t.host)
	for _, p := range []string{"../" + base + "-evil/f", evil + "/f", t.ws.Root() + "-evil/f", "../" + base + "/../" + base + "-evil/f"} {
		t.everyVerbOutside(p)
	}
	if data, err := os.ReadFile(evil + "/f"); err != nil || string(data) != "secret" {
		t.Errorf("the neighbour's file is %q, %v", data, err)
	}
}

func linksInside(t *checker) {
	t.write("d/e/f", "content")
	root := t.ws.Root()
	t.plant("ln -s d/e/f rel; ln -s ../d/e d/up; ln -s '" + root + "/" + t.path("d/e/f") + "' abs; ln -s '" + root + "' root; ln -s '" + root + "//" + t.path("d/./e/../e") + "' odd")
	chain := "ln -s d/e/f c0"
	for i := range 30 {
		chain += fmt.Sprintf("; ln -s c%d c%d", i, i+1)
	}
	t.plant(chain)
	for _, name := range []string{"rel", "d/up/f", "abs", "root/" + t.path("d/e/f"), "odd/f", "c9", "c30"} {
		t.wantFile(name, "content")
		if got := t.ok("cat " + name); got != "content" {
			t.Errorf("a command reads %q through %s", got, name)
		}
	}
	for _, dir := range []string{"d/up", "odd", "root"} {
		out := t.run(workspace.Command{Shell: "pwd -P", Dir: t.path(dir)})
		want := t.pwd(t.path("d/e"))
		if dir == "root" {
			want = t.pwd(".")
		}
		t.wantOut("a command in "+dir, out, 0, want, "")
	}
}

func linksOutside(t *checker) {
	out, intact := t.outside()
	defer intact()
	up := strings.Repeat("../", strings.Count(t.path("x"), "/")+1)
	t.plant("ln -s '" + out + "' abs; ln -s '" + out + "/gone' dangling; ln -s " + up + "etc rel; ln -s abs chain; ln -s chain/secret chain2; " +
		"ln -s / slash; ln -s '" + t.ws.Root() + "x' prefix; ln -s '" + t.ws.Root() + "/../' parent; mkdir d; ln -s ../abs d/l; ln -s /proc/self/cwd proc; ln -s /proc/self/root/etc root; ln -s /proc/self/fd/0 fd")
	for _, name := range []string{"abs/secret", "abs/.", "abs/", "abs/new", "dangling/new", "rel/passwd", "chain/secret", "slash/etc", "prefix/f", "parent/x", "d/l/secret", "proc/x", "root/passwd", "abs/../x"} {
		t.everyVerbOutside(t.path(name))
	}
	// What does not follow a last link takes the link; what follows, does not.
	for _, name := range []string{"abs", "dangling", "rel", "chain2", "slash", "proc", "fd"} {
		for verb, call := range t.verbs(t.ctx, t.path(name), t.path("other")) {
			switch verb {
			case "Lstat", "ReadLink", "Remove", "Trash", "Rename from", "Rename to", "Symlink", "Mkdir", "Copy to":
				continue
			}
			t.wantCode(verb+" "+name, call(), workspace.ErrOutside)
		}
		res, err := t.exec(workspace.Command{Args: []string{"pwd"}, Dir: t.path(name)})
		t.wantCode("a command in "+name+told(res), err, workspace.ErrOutside)
		if got := t.mode(name); got.Type() != fs.ModeSymlink {
			t.Errorf("%s is now %v", name, got)
		}
	}
	if t.host != "" && t.host != t.ws.Root() {
		// The root's name on this machine means nothing to its processes.
		t.write("f", "x")
		t.plant("ln -s '" + t.host + "/" + t.path("f") + "' foreign")
		_, err := t.ws.ReadFile(t.ctx, t.path("foreign"), 0)
		if r, ok := t.ws.Driver().(workspace.Realer); !ok || r.Real() != t.host {
			t.wantCode("a link to the root's place on this machine", err, workspace.ErrOutside)
		}
	}
}

func linksOfCommands(t *checker) {
	t.write("d/f", "content")
	t.ok("ln -s d/f in; ln -s /etc out; ln -s /etc/passwd file; ln -s ../../../.. up")
	t.wantFile("in", "content")
	for _, name := range []string{"out/passwd", "file", "up/x"} {
		_, err := t.ws.ReadFile(t.ctx, t.path(name), 0)
		t.wantCode(name, err, workspace.ErrOutside)
		_, err = t.ws.WriteFile(t.ctx, t.path(name), []byte("x"), workspace.WriteOptions{})
		t.wantCode("write "+name, err, workspace.ErrOutside)
	}
	_, err := t.ws.ReadDir(t.ctx, t.path("out"), workspace.ListOptions{})
	t.wantCode("list", err, workspace.ErrOutside)
}

func linkLoops(t *checker) {
	t.plant("ln -s self self; ln -s b a; ln -s a b; ln -s ../d/l d 2>/dev/null; mkdir dir; ln -s ../dir/l dir/l")
	chain := "echo x > c0"
	for i := range 45 {
		chain += fmt.Sprintf("; ln -s c%d c%d", i, i+1)
	}
	t.plant(chain)
	for _, name := range []string{"self", "a", "b/x", "dir/l", "dir/l/l", "c45"} {
		began := time.Now()
		_, err := t.ws.ReadFile(t.ctx, t.path(name), 0)
		t.wantCode(name, err, workspace.ErrInvalidPath)
		_, err = t.ws.WriteFile(t.ctx, t.path(name), nil, workspace.WriteOptions{})
		t.wantCode("write "+name, err, workspace.ErrInvalidPath)
		t.within(name, began, 100*time.Millisecond)
	}
	t.wantFile("c9", "x\n")
	t.wantFile("c40", "x\n")
}

func dotsAfterLink(t *checker) {
	t.plant("mkdir -p deep/down; echo here > deep/f; echo top > f; ln -s deep/down link")
	t.wantFile("link/../f", "here\n")
	if got := t.ok("cat link/../f"); got != "here\n" {
		t.Errorf("a command reads %q", got)
	}
	t.write("link/../g", "new")
	t.wantFile("deep/g", "new")
	t.wantGone("g")
	out := t.run(workspace.Command{Shell: "cat f", Dir: t.path("link/..")})
	t.wantOut("a command in link/..", out, 0, "here\n", "")
	t.must(t.ws.Remove(t.ctx, t.path("link/../g"), workspace.RemoveOptions{}))
	t.wantGone("deep/g")
	_, err := t.ws.Stat(t.ctx, t.path("f/../deep"))
	t.wantCode("dots after a file", err, workspace.ErrNotDirectory)
}

func danglingLinks(t *checker) {
	out, intact := t.outside()
	defer intact()
	t.plant("ln -s missing l; ln -s missing/x m; ln -s '" + out + "/new' o")
	for _, name := range []string{"l", "m", "o"} {
		_, err := t.ws.WriteFile(t.ctx, t.path(name), []byte("x"), workspace.WriteOptions{})
		if err == nil {
			t.Errorf("a write through %s works", name)
		}
		want := workspace.ErrNotFound
		if name == "o" {
			want = workspace.ErrOutside
		}
		t.wantCode("write "+name, err, want)
		_, err = t.ws.ReadFile(t.ctx, t.path(name), 0)
		t.wantCode("read "+name, err, want)
		if err := t.ws.Mkdir(t.ctx, t.path(name), workspace.MkdirOptions{Parents: true}); err == nil {
			t.Errorf("mkdir through %s works", name)
		}
		if got := t.mode(name); got.Type() != fs.ModeSymlink {
			t.Errorf("%s is now %v", name, got)
		}
	}
	t.wantGone("missing")
}

// swappedDirectory: somebody swaps a directory for a link that leads out, as
// fast as they can, while files in it are read, listed and edited.
func swappedDirectory(t *checker) {
	out, intact := t.outside()
	defer intact()
	t.write("d/inside", "x")
	t.plant("ln -s '" + out + "' evil")
	ctx, cancel := context.WithTimeout(t.ctx, 600*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		t.plant("while [ ! -e stop ]; do mv d real && mv evil d && mv d evil && mv real d || exit; done")
	})
	var met, missed atomic.Int32
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if data, err := t.ws.ReadFile(t.ctx, t.path("d/secret"), 0); err == nil {
					t.Errorf("read %q, which lies outside", data)
				}
				_, err := t.ws.Edit(t.ctx, t.path("d/secret"), workspace.EditOptions{}, func([]byte) ([]byte, error) { return nil, nil })
				if err == nil {
					t.Error("edited what lies outside")
				}
				list, err := t.ws.ReadDir(t.ctx, t.path("d"), workspace.ListOptions{})
				switch {
				case err != nil:
					missed.Add(1)
				case len(list.Entries) != 1 || list.Entries[0].Name() != "inside":
					t.Errorf("listed %v", list.Entries)
				default:
					met.Add(1)
				}
			}
		})
	}
	<-ctx.Done()
	t.write("stop", "")
	wg.Wait()
	if met.Load() == 0 || missed.Load() == 0 {
		t.Errorf("the directory was met %d times and missed %d times: there was no race", met.Load(), missed.Load())
	}
}
