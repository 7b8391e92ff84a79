// Package reaper tells whose a container is and removes those whose owner is
// gone.
//
// A container of ours carries its whole story in labels ([Tag]); nothing else
// is kept anywhere, so an owner may die at any line. The owner is the process
// that made the container. While it lives, the container is its own business:
// no rule here removes it, whatever state it is in. A container is removed only
// when its owner is proven to be gone ([Decide]): the machine is this one, and
// it has been booted since, or the process table that the owner was in is this
// one and no process with its pid and start time is in it. A detached container
// has no owner and goes when it has expired. Everything else is left alone, and
// [List] says why.
//
// Labels alone prove nothing, since images hand theirs down to containers: a
// container is ours only if it also has the name derived from its labelled id
// and its image carries none of our keys.
//
// What remains open: two machines that share one engine, a host name and a
// machine id (a disk image cloned with /etc/machine-id in it) take each other
// for an earlier boot of themselves. machine-id(5) asks that such images are
// made with an empty one.
package reaper
