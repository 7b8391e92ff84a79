//go:build unix

package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

// Choices are what somebody chose of a detached container when it was made.
type Choices struct {
	// Image is the reference as given; empty: the host's own toolchain.
	Image     string   `json:"image,omitempty"`
	Toolchain []string `json:"toolchain,omitempty"`
	// Memory is in bytes.
	Memory  int64   `json:"memory"`
	CPUs    float64 `json:"cpus"`
	Pids    int64   `json:"pids"`
	Network string  `json:"network"`
	// User is uid:gid.
	User      string  `json:"user"`
	Mounts    []Mount `json:"mounts,omitempty"`
	Runtime   string  `json:"runtime,omitempty"`
	FreshHome bool    `json:"freshHome,omitempty"`
	// ReadOnlyRootfs, Seccomp and Protect are as in Options.
	ReadOnlyRootfs bool        `json:"readOnlyRootfs,omitempty"`
	Seccomp        SeccompMode `json:"seccomp"`
	Protect        []string    `json:"protect,omitempty"`
	// TTL is in whole seconds; 0: for ever.
	TTL time.Duration `json:"ttl,omitempty"`
	// Disk is in bytes; 0: without a limit.
	Disk int64 `json:"disk,omitempty"`
}

// choices are the ones that o stands for; user is as whom commands run.
func (o Options) choices(user commandUser) Choices {
	return Choices{
		Image: o.Image, Toolchain: o.Toolchain, Memory: o.Memory, CPUs: o.CPUs, Pids: o.Pids, Network: o.Network,
		User: user.String(), Mounts: o.Mounts, Runtime: o.Runtime, FreshHome: o.FreshHome, TTL: o.TTL, Disk: o.Disk,
		ReadOnlyRootfs: o.ReadOnlyRootfs, Seccomp: o.Seccomp, Protect: o.Protect,
	}
}

// options are those that stand for c.
func (c Choices) options() Options {
	return Options{
		Image: c.Image, Toolchain: c.Toolchain, Memory: c.Memory, CPUs: c.CPUs, Pids: c.Pids, Network: c.Network,
		User: c.User, Mounts: c.Mounts, Runtime: c.Runtime, FreshHome: c.FreshHome, TTL: c.TTL, Disk: c.Disk,
		ReadOnlyRootfs: c.ReadOnlyRootfs, Seccomp: c.Seccomp, Protect: c.Protect,
	}
}

// differences names the choices in which other is not c, each with both values.
func (c Choices) differences(other Choices) []string {
	mine, others := fieldsOf(c), fieldsOf(other)
	var diffs []string
	names := slices.Collect(maps.Keys(mine))
	for name := range others {
		if _, ok := mine[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if a, b := short(mine[name]), short(others[name]); a != b {
			diffs = append(diffs, fmt.Sprintf("%s is %s and not %s", name, a, b))
		}
	}
	return diffs
}

// labelNote is the label of a detached container that says what its maker knew and
// an adopter needs. Like every label it is believed only of a container that
// reaper.Claim says is ours.
const labelNote = reaper.Prefix + "note"

// maxNote bounds what is read of it, in bytes.
const maxNote = 256 << 10

// note is what that label holds.
type note struct {
	Choices Choices `json:"choices"`
	// Made is random, so that a maker knows its own container by it.
	Made string `json:"made"`
	// Protocol is that of the keeper inside; 0: there is none.
	Protocol int `json:"protocol"`
	// Cgroup and Kernel are as in EngineInfo.
	Cgroup string `json:"cgroup"`
	Kernel string `json:"kernel"`
	// Root and Born are the root's inode and when it was made, as in rootFacts:
	// another directory of its name is another workspace.
	Root uint64 `json:"root"`
	Born int64  `json:"born"`
	// Path is PATH where the image is the frame of the host's toolchain, and
	// UserName the user's name there.
	Path     string `json:"path,omitempty"`
	UserName string `json:"userName,omitempty"`
	// Home is the key of a fresh home, which goes with the container.
	Home string `json:"home,omitempty"`
	// Disk is what a limit counts from.
	Disk *diskBase `json:"disk,omitempty"`
	// Sources are the identities of what the caller's own mounts show, by
	// target: after a start they must be the same.
	Sources map[string]noteID `json:"sources,omitempty"`
}

// noteID is a fileID in JSON.
type noteID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// note is the one for the container that p plans.
func (d *Driver) note(p *plan) note {
	n := note{Choices: d.opts.choices(d.user), Made: reaper.NewID(), UserName: p.userName, Cgroup: d.engine.info.Cgroup, Kernel: d.engine.info.Kernel, Root: d.facts.Ino, Born: d.facts.Born}
	if p.spec.Keeper != "" {
		n.Protocol = keeper.Protocol
	}
	if p.image.Toolchain {
		n.Path = strings.Join(pathOf(p.image.Env), ":")
	}
	if p.home.fresh {
		n.Home = p.home.key
	}
	n.Disk = d.base
	for target, id := range p.expected.Sources {
		if n.Sources == nil {
			n.Sources = map[string]noteID{}
		}
		n.Sources[target] = noteID{id.dev, id.ino}
	}
	return n
}

// label is n as the label's value.
func (n note) label() (string, error) {
	text, err := json.Marshal(n)
	if err == nil && len(text) > maxNote {
		err = fmt.Errorf("%d bytes are more than a label should have; name fewer mounts", len(text))
	}
	if err != nil {
		return "", workspace.Errorf(workspace.ErrInvalidArgument, "start", "", "the options of the detached container: %w", err)
	}
	return string(text), nil
}

// readNote reads the label's value.
func readNote(text string) (note, error) {
	var n note
	switch {
	case text == "":
		return n, errors.New("it has no label " + labelNote)
	case len(text) > maxNote:
		return n, errors.New("its label " + labelNote + " is too long")
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&n); err != nil {
		return n, fmt.Errorf("its label %s: %w", labelNote, err)
	}
	return n, nil
}

// sources are what must be mounted, by target; nil where it was not compared.
func (n note) sources() map[string]fileID {
	var ids map[string]fileID
	for target, id := range n.Sources {
		if ids == nil {
			ids = map[string]fileID{}
		}
		ids[target] = fileID{id.Dev, id.Ino}
	}
	return ids
}

// believing is an engine of which only the address is known, as a detached
// container's maker has seen it. What a note cannot know is asked when a container
// is started.
func (e *Engine) believing(n note) *Engine {
	if e.learned {
		return e
	}
	info := e.info
	info.Cgroup, info.Kernel = n.Cgroup, n.Kernel
	return &Engine{cli: e.cli, info: info}
}
