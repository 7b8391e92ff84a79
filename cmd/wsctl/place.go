package main

import (
	"fmt"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/container"
)

// Drivers.
const (
	driverContainer = "container"
	driverHost      = "host"
)

// placeOptions are the flags that say where commands run: the directory, and
// the container around them.
type placeOptions struct {
	root      string
	driver    choice
	image     string
	pull      choice
	toolchain list
	memory    size
	cpus      cpus
	pids      count
	network   string
	user      string
	mounts    list
	runtime   string
	freshHome bool
	readOnly  bool
	seccomp   choice
	protect   list
	disk      size
}

// containerOnly are the flags that mean nothing to --driver host. Taking them
// and doing nothing would promise what is not there.
var containerOnly = []string{"image", "pull", "toolchain", "memory", "cpus", "pids", "network", "user", "mount", "runtime", "fresh-home", "disk", "read-only-rootfs", "seccomp", "protect"}

func (o *placeOptions) addFlags(cmd *cobra.Command) {
	o.driver = choice{value: driverContainer, words: []string{driverContainer, driverHost}}
	o.addRootFlag(cmd)
	addChoice(cmd, &o.driver, "driver", "where commands run: container, or host, which confines nothing")
	o.addContainerFlags(cmd)
}

// addRootFlag adds the flag about the directory alone.
func (o *placeOptions) addRootFlag(cmd *cobra.Command) {
	o.root = "."
	cmd.Flags().Var(&named{&o.root, "DIR"}, "root", "directory that the sandbox is over")
	_ = cmd.MarkFlagDirname("root")
}

// addContainerFlags adds the flags about the container alone.
func (o *placeOptions) addContainerFlags(cmd *cobra.Command) {
	o.pull = choice{value: string(container.PullMissing), words: []string{string(container.PullMissing), string(container.PullAlways), string(container.PullNever)}}
	o.seccomp = choice{words: []string{string(container.SeccompDefault), string(container.SeccompStrict)}}
	o.protect.name = "DIR"
	o.toolchain.name, o.mounts.name = "DIR", "SRC:DST[:rw]"
	// The engine takes no less than 6 MiB.
	o.memory = size{least: 6 << 20, most: 1 << 50}
	// Room for the keepers and a command: container.Options.Pids.
	o.pids = count{least: 32, most: 1 << 22}
	o.network = container.DefaultNetwork

	f := cmd.Flags()
	f.Var(&named{&o.image, "REF"}, "image", "run in this image (default: the programs of this machine)")
	addChoice(cmd, &o.pull, "pull", "when to pull the image")
	f.Var(&o.toolchain, "toolchain", "directory of this machine with more programs, read-only at the same path (repeatable)")
	_ = cmd.MarkFlagDirname("toolchain")
	f.Var(&o.memory, "memory", "memory limit, at least 6m (default "+units.BytesSize(container.DefaultMemory)+")")
	f.Var(&o.cpus, "cpus", fmt.Sprintf("processors at most, fractions allowed (default %v)", container.DefaultCPUs))
	f.Var(&o.pids, "pids", fmt.Sprintf("processes and threads at most, 32 or more (default %d)", container.DefaultPids))
	f.Var(&named{&o.network, "NAME"}, "network", "none, bridge, or another network of the engine")
	_ = cmd.RegisterFlagCompletionFunc("network", cobra.FixedCompletions([]string{"none", "bridge"}, cobra.ShellCompDirectiveNoFileComp))
	f.Var(&named{&o.user, "UID:GID"}, "user", "run as this user and group (default: you; for root, the owner of the root directory)")
	f.Var(&o.mounts, "mount", "directory or file of this machine at another path inside, read-only without :rw (repeatable)")
	f.Var(&named{&o.runtime, "NAME"}, "runtime", "runtime of the engine, such as runsc (default: the engine's)")
	f.BoolVar(&o.readOnly, "read-only-rootfs", false, "make all but the root, HOME, /tmp and /run read-only; the last two are in memory")
	addChoice(cmd, &o.seccomp, "seccomp", "system calls: default, or strict, without debuggers and Unix sockets (default default)")
	f.Var(&o.protect, "protect", "directory of the root that commands can read and not change, such as .git/hooks (repeatable)")
	addDiskFlag(cmd, &o.disk)
	f.BoolVar(&o.freshHome, "fresh-home", false, "an empty home directory instead of the one kept for this root")
}

// addDiskFlag adds the flag about the disk, which a command in a workspace has too.
func addDiskFlag(cmd *cobra.Command, n *size) {
	*n = size{least: 1 << 20, most: 1 << 60}
	cmd.Flags().Var(n, "disk", "end what runs when root, home and container have grown by this much (default: no limit)")
}

// check refuses flags that do not go together.
func (o *placeOptions) check(cmd *cobra.Command) error {
	verb := cmd.Name()
	if o.driver.value == driverHost {
		for _, name := range containerOnly {
			if cmd.Flags().Changed(name) {
				return usagef(verb, "--%s needs the container driver; leave out --driver host or --%s", name, name)
			}
		}
	}
	if o.root == "" && cmd.Flags().Changed("root") {
		return usagef(verb, "--root is empty; give a directory")
	}
	if o.image == "" && cmd.Flags().Changed("image") {
		return usagef(verb, "--image is empty; give an image, or leave it out for the programs of this machine")
	}
	_, err := o.mountList()
	return err
}

// changed is the first of the flags about how a sandbox is made that was given, ""
// for none.
func (o *placeOptions) changed(cmd *cobra.Command) string {
	for _, name := range append([]string{"root", "driver"}, containerOnly...) {
		if cmd.Flags().Changed(name) && name != "disk" {
			return name
		}
	}
	return ""
}

// mountList reads --mount.
func (o *placeOptions) mountList() ([]container.Mount, error) {
	var all []container.Mount
	for _, text := range o.mounts.values {
		m, err := container.ParseMount(text)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}
