package container

// Defaults of Options.
const (
	// DefaultMemory is a container's memory in bytes; it gets no swap.
	DefaultMemory = 2 << 30
	// DefaultCPUs is how many processors' time a container gets.
	DefaultCPUs = 2
	// DefaultPids is how many processes and threads a container may have.
	DefaultPids = 512
	// DefaultNetwork is none: only the loopback interface.
	DefaultNetwork = networkNone
)

// networkNone is the engine's name for no network.
const networkNone = "none"
