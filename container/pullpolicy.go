package container

import "github.com/wsctl/wsctl/workspace"

// PullPolicy is when an image is asked for at its registry.
type PullPolicy string

const (
	// PullMissing asks when the engine does not have the image.
	PullMissing PullPolicy = "missing"
	// PullAlways asks before every container.
	PullAlways PullPolicy = "always"
	// PullNever uses what the engine has.
	PullNever PullPolicy = "never"
)

// ParsePullPolicy reads a policy; "" is PullMissing.
func ParsePullPolicy(s string) (PullPolicy, error) {
	switch p := PullPolicy(s); p {
	case "":
		return PullMissing, nil
	case PullMissing, PullAlways, PullNever:
		return p, nil
	}
	return "", workspace.Errorf(workspace.ErrInvalidArgument, "pull", "", "the pull policy %s is not missing, always or never", workspace.Printable(s))
}

// PullEvent is one step of a pull.
type PullEvent struct {
	// Layer is the short id of the layer meant; "" for the image as a whole.
	Layer string
	// Status says what happens ("Downloading", "Extracting", "Pull
	// complete"), in the engine's words: free of control characters, but
	// otherwise not to be relied on.
	Status string
	// Current of Total bytes are done; both 0 where that makes no sense.
	Current, Total int64
}
