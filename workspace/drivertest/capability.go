//go:build unix

package drivertest

import (
	"errors"

	"github.com/wsctl/wsctl/workspace"
)

// capability is one field of Capabilities as the cases use it.
type capability struct {
	name string
	in   func(Capabilities) bool
	// absent checks, in place of a case that needs it, that the driver does
	// not have it; absence says so in a sentence.
	absence string
	absent  func(t *checker)
}

func needConfined() capability {
	return capability{
		"Confined", func(c Capabilities) bool { return c.Confined },
		"its commands see the files of this machine.",
		func(t *checker) {
			dir, _ := t.outside()
			if got := t.ok("cat '" + dir + "/secret'"); got != "top secret\n" {
				t.Errorf("a command cannot read outside the root; say Confined: read %q", got)
			}
		},
	}
}

func needMasked() capability {
	return capability{
		"Masked", func(c Capabilities) bool { return c.Masked },
		"its commands see the workspace's own state.",
		func(t *checker) {
			t.write("f", "x")
			t.must(t.ws.Remove(t.ctx, t.path("f"), workspace.RemoveOptions{Trash: true}))
			out := t.run(workspace.Command{Shell: "ls -A .wsctl", Dir: "."})
			if len(out.Stdout) == 0 {
				t.Errorf("commands do not see the state; say Masked%s", told(out))
			}
		},
	}
}

func needEscapees() capability {
	return capability{
		"EndsEscapees", func(c Capabilities) bool { return c.EndsEscapees },
		"what leaves a command's session outlives the command, until the workspace is closed or longer.",
		func(t *checker) {
			mark := t.mark()
			out := t.sh("setsid sleep " + mark + " </dev/null >/dev/null 2>&1 & sleep .1; echo done")
			t.wantOut("a command that leaves a process in another session", out, 0, "done\n", "")
			t.wantAlive("after its command, in a session of its own (or say EndsEscapees)", mark)
			t.endKept(mark)
		},
	}
}

func needStart() capability {
	return capability{
		"Start", func(c Capabilities) bool { return c.Start },
		"Start is UNSUPPORTED and errors.ErrUnsupported.",
		func(t *checker) {
			p, err := t.ws.Start(t.ctx, workspace.Command{Args: []string{"true"}})
			t.wantCode("Start", err, workspace.ErrUnsupported)
			if p != nil || !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("Start gave %v and %v", p, err)
			}
		},
	}
}

func needTerminal() capability {
	return capability{
		"Terminal", func(c Capabilities) bool { return c.Terminal },
		"Start with a terminal is UNSUPPORTED and errors.ErrUnsupported, and nothing runs.",
		func(t *checker) {
			_, err := t.ws.Start(t.ctx, workspace.Command{
				Shell: "echo > ran", Dir: t.dir, Terminal: &workspace.TerminalSize{Rows: 24, Cols: 80},
			})
			t.wantCode("Start with a terminal", err, workspace.ErrUnsupported)
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%v is not errors.ErrUnsupported", err)
			}
			t.wantGone("ran")
		},
	}
}

func needUsage() capability {
	return capability{
		"Usage", func(c Capabilities) bool { return c.Usage },
		"Usage is nil, not guessed.",
		func(t *checker) {
			if out := t.sh(":"); out.Usage != nil {
				t.Errorf("Usage is %+v; say Usage", out.Usage)
			}
		},
	}
}

func needSnapshots() capability {
	return capability{
		"Snapshots", func(c Capabilities) bool { return c.snapshots },
		"all that needs them is UNSUPPORTED and errors.ErrUnsupported.",
		func(t *checker) {
			_, saved := t.ws.Checkpoint(t.ctx, "1", nil)
			_, restored := t.ws.Restore(t.ctx, "latest", workspace.RestoreOptions{})
			_, rewound := t.ws.Rewind(t.ctx, "1", workspace.RestoreOptions{})
			for _, err := range []error{saved, restored, rewound} {
				t.wantCode("without snapshots", err, workspace.ErrUnsupported)
				if !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("%v is not errors.ErrUnsupported", err)
				}
			}
		},
	}
}

func needPause() capability {
	return capability{
		"Pause", func(c Capabilities) bool { return c.Pause },
		"a restore that is to pause commands is UNSUPPORTED, and changes nothing.",
		func(t *checker) {
			k, _ := t.keeping(workspace.Options{})
			first := k.checkpoint("1", "")
			defer k.running("sleep 60")()
			_, err := k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{WhileRunning: workspace.PauseWhileRunning})
			k.wantCode("a restore that pauses", err, workspace.ErrUnsupported)
			if _, err := k.ws.Stat(k.ctx, "began"); err != nil {
				t.Errorf("it restored all the same: %v", err)
			}
		},
	}
}
