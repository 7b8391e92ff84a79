package workspace_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func TestMergeEnv(t *testing.T) {
	for _, c := range []struct {
		layers [][]string
		want   []string
	}{
		{nil, nil},
		{[][]string{nil, {}}, nil},
		{[][]string{{"A=1", "B=2"}, {"A=3"}}, []string{"A=3", "B=2"}},
		{[][]string{{"A=1", "A=2"}}, []string{"A=2"}},
		{[][]string{{"A=1"}, {"B=="}, {"A="}}, []string{"A=", "B=="}},
		{[][]string{{"a=1", "A=2"}}, []string{"a=1", "A=2"}},
	} {
		if got := workspace.MergeEnv(c.layers...); !slices.Equal(got, c.want) {
			t.Errorf("MergeEnv(%q) is %q, want %q", c.layers, got, c.want)
		}
	}
	layer := []string{"A=1"}
	workspace.MergeEnv(layer, []string{"A=2"})
	if layer[0] != "A=1" {
		t.Error("MergeEnv changed a layer")
	}
}

// seen is a driver's view of the last command.
func seen(t testing.TB, o workspace.Options) (*workspace.Workspace, *inprocess, *workspace.Command) {
	last := new(workspace.Command)
	d := newInprocess(map[string]program{"sh": func(p *goprocess) int { *last = p.command; return 0 }})
	d.programs["it"] = d.programs["sh"]
	d.files.tree["d/f"] = &fstest.MapFile{}
	return open(t, d, o), d, last
}

func TestLimits(t *testing.T) {
	const bad, good = false, true
	timeouts := []struct {
		v  time.Duration
		ok bool
	}{
		{0, good},
		{workspace.NoTimeout, good},
		{time.Nanosecond, good},
		{time.Second / 2, good},
		{workspace.MaxTimeout, good},
		{workspace.MaxTimeout + 1, bad},
		{-2, bad},
		{-time.Second, bad},
		{math.MaxInt64, bad},
		{math.MinInt64, bad},
	}
	graces := []struct {
		v  time.Duration
		ok bool
	}{
		{0, good},
		{workspace.NoKillGrace, good},
		{time.Nanosecond, good},
		{workspace.MaxKillGrace, good},
		{workspace.MaxKillGrace + 1, bad},
		{-2, bad},
		{math.MaxInt64, bad},
		{math.MinInt64, bad},
	}
	outputs := []struct {
		v  int
		ok bool
	}{
		{0, good}, {workspace.NoOutput, good}, {1, good}, {math.MaxInt, good}, {-2, bad}, {math.MinInt, bad},
	}
	ws, d, _ := seen(t, workspace.Options{})
	check := func(what string, ok bool, c workspace.Command, o workspace.Options) {
		t.Helper()
		want := workspace.Code("")
		if !ok {
			want = workspace.ErrInvalidArgument
		}
		c.Args = []string{"it"}
		if c.Timeout < 0 || c.Timeout > time.Millisecond || !ok { // a nanosecond's outcome is a matter of luck
			before, _, _ := d.counts()
			_, err := ws.Exec(t.Context(), c)
			if workspace.CodeOf(err) != want {
				t.Errorf("Command %s: %v", what, err)
			}
			if after, _, _ := d.counts(); !ok && after != before {
				t.Errorf("Command %s: the driver was started", what)
			}
		}
		if _, err := workspace.New(d, o); workspace.CodeOf(err) != want {
			t.Errorf("Options %s: %v", what, err)
		}
	}
	for _, c := range timeouts {
		check(fmt.Sprint("Timeout ", c.v), c.ok, workspace.Command{Timeout: c.v}, workspace.Options{Timeout: c.v})
	}
	for _, c := range graces {
		check(fmt.Sprint("KillGrace ", c.v), c.ok, workspace.Command{KillGrace: c.v}, workspace.Options{KillGrace: c.v})
	}
	for _, c := range outputs {
		check(fmt.Sprint("MaxOutput ", c.v), c.ok, workspace.Command{MaxOutput: c.v}, workspace.Options{MaxOutput: c.v})
	}
}

func TestDefaults(t *testing.T) {
	ws, _, last := seen(t, workspace.Options{})
	if _, err := ws.Exec(t.Context(), workspace.Command{Shell: "x"}); err != nil {
		t.Fatal(err)
	}
	if last.Dir != "." || last.KillGrace != workspace.DefaultKillGrace || last.Background != workspace.BackgroundKill || last.Shell != "x" {
		t.Errorf("the driver got %+v", last)
	}
	ws, _, last = seen(t, workspace.Options{Dir: "d", KillGrace: time.Minute, Env: []string{"A=1", "A=2", "B=1"}})
	if _, err := ws.Exec(t.Context(), workspace.Command{Shell: "x", Env: []string{"B=2", "C=3"}}); err != nil {
		t.Fatal(err)
	}
	if last.Dir != "d" || last.KillGrace != time.Minute || !slices.Equal(last.Env, []string{"A=2", "B=2", "C=3"}) {
		t.Errorf("the driver got %+v", last)
	}
	if _, err := ws.Exec(t.Context(), workspace.Command{Shell: "x", Dir: "/place/d/..", KillGrace: workspace.NoKillGrace}); err != nil {
		t.Fatal(err)
	}
	if last.Dir != "d/.." || last.KillGrace != 0 {
		t.Errorf("the driver got %+v", last)
	}
	env := ws.Env()
	env[0] = "A=changed"
	if got := ws.Env(); !slices.Equal(got, []string{"A=2", "B=1"}) {
		t.Errorf("Env is %q: the caller's copy is the workspace's", got)
	}
}

func TestCommandIsRefused(t *testing.T) {
	big := strings.Repeat("x", workspace.MaxArg+1)
	fit := big[1:]
	many := make([]string, 0, 1<<20)
	for range cap(many) {
		many = append(many, "x")
	}
	ws, d, _ := seen(t, workspace.Options{})
	for _, c := range []struct {
		name string
		c    workspace.Command
		code workspace.Code
	}{
		{"nothing", workspace.Command{}, workspace.ErrInvalidArgument},
		{"both", workspace.Command{Args: []string{"it"}, Shell: "it"}, workspace.ErrInvalidArgument},
		{"empty name", workspace.Command{Args: []string{""}}, workspace.ErrInvalidArgument},
		{"NUL in an argument", workspace.Command{Args: []string{"it", "a\x00"}}, workspace.ErrInvalidArgument},
		{"NUL in the shell text", workspace.Command{Shell: "it\x00"}, workspace.ErrInvalidArgument},
		{"terminal", workspace.Command{Shell: "it", Terminal: &workspace.TerminalSize{}}, workspace.ErrInvalidArgument},
		{"background", workspace.Command{Shell: "it", Background: "later"}, workspace.ErrInvalidArgument},
		{"no =", workspace.Command{Shell: "it", Env: []string{"A"}}, workspace.ErrInvalidArgument},
		{"empty env name", workspace.Command{Shell: "it", Env: []string{"=A"}}, workspace.ErrInvalidArgument},
		{"digit first", workspace.Command{Shell: "it", Env: []string{"1A=x"}}, workspace.ErrInvalidArgument},
		{"function", workspace.Command{Shell: "it", Env: []string{"BASH_FUNC_x%%=() { :; }"}}, workspace.ErrInvalidArgument},
		{"dash", workspace.Command{Shell: "it", Env: []string{"A-B=x"}}, workspace.ErrInvalidArgument},
		{"accent", workspace.Command{Shell: "it", Env: []string{"É=x"}}, workspace.ErrInvalidArgument},
		{"NUL in an env value", workspace.Command{Shell: "it", Env: []string{"A=\x00"}}, workspace.ErrInvalidArgument},
		{"large env entry", workspace.Command{Shell: "it", Env: []string{"A=" + fit}}, workspace.ErrTooLarge},
		{"large argument", workspace.Command{Args: []string{"it", big}}, workspace.ErrTooLarge},
		{"large shell text", workspace.Command{Shell: big}, workspace.ErrTooLarge},
		{"many arguments", workspace.Command{Args: many}, workspace.ErrTooLarge},
		{"Dir missing", workspace.Command{Shell: "it", Dir: "gone"}, workspace.ErrNotFound},
		{"Dir a file", workspace.Command{Shell: "it", Dir: "d/f"}, workspace.ErrNotDirectory},
		{"Dir outside", workspace.Command{Shell: "it", Dir: "/"}, workspace.ErrOutside},
		{"Dir above", workspace.Command{Shell: "it", Dir: "d/../.."}, workspace.ErrOutside},
		{"Dir invalid", workspace.Command{Shell: "it", Dir: "a\x00"}, workspace.ErrInvalidPath},
	} {
		_, err := ws.Exec(t.Context(), c.c)
		if workspace.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", c.name, err, c.code)
		}
	}
	if readies, _, _ := d.counts(); readies != 0 {
		t.Errorf("the driver was started %d times", readies)
	}
	if _, err := ws.Exec(t.Context(), workspace.Command{Shell: fit, Env: []string{"_a1=x=y"}}); err != nil {
		t.Errorf("a text of the largest size: %v", err)
	}
	if _, err := workspace.New(d, workspace.Options{Env: []string{"no"}}); workspace.CodeOf(err) != workspace.ErrInvalidArgument {
		t.Errorf("Options.Env: %v", err)
	}
}

func TestSignalsArePassedOn(t *testing.T) {
	got := make(chan syscall.Signal, 1)
	ws := open(t, newInprocess(map[string]program{"catch": func(p *goprocess) int { got <- <-p.signals; return 0 }}), workspace.Options{})
	signals := make(chan os.Signal, 2)
	signals <- fakeSignal{} // none that the workspace's system knows
	signals <- syscall.SIGINT
	if _, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"catch"}, Signals: signals}); err != nil {
		t.Fatal(err)
	}
	if sig := <-got; sig != syscall.SIGINT {
		t.Errorf("the command got %v", sig)
	}
}
