package container

// CheckStatus is how one check of Examine came out.
type CheckStatus string

const (
	// CheckOK: it is as it must be.
	CheckOK CheckStatus = "ok"
	// CheckWarn: it works, and something is weaker than it could be.
	CheckWarn CheckStatus = "warn"
	// CheckFail: commands cannot run, or not as confined as promised.
	CheckFail CheckStatus = "fail"
	// CheckOpen: what no setting closes. It is here so that nobody believes
	// otherwise.
	CheckOpen CheckStatus = "open"
)

// Check is one thing that was looked at.
type Check struct {
	Name   string      `json:"name"`
	Status CheckStatus `json:"status"`
	// Detail is what was found.
	Detail string `json:"detail"`
	// Advice is what to do; empty when there is nothing to do.
	Advice string `json:"advice,omitempty"`
}

// Report is what Examine found, in the order in which it looked.
type Report struct {
	Engine EngineInfo `json:"engine"`
	Checks []Check    `json:"checks"`
}

// Failed tells whether a check failed.
func (r Report) Failed() bool {
	for _, c := range r.Checks {
		if c.Status == CheckFail {
			return true
		}
	}
	return false
}

func (r *Report) add(status CheckStatus, name, detail, advice string) {
	r.Checks = append(r.Checks, Check{Name: name, Status: status, Detail: detail, Advice: advice})
}

// addIf adds a check that is ok when good, and otherwise has the status and
// advice.
func (r *Report) addIf(good bool, otherwise CheckStatus, name, detail, advice string) {
	if good {
		r.add(CheckOK, name, detail, "")
		return
	}
	r.add(otherwise, name, detail, advice)
}
