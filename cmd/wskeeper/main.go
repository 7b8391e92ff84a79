// Command wskeeper is the keeper as a binary of its own: small, static, mounted
// into containers with mode 0111. It is started by wsctl, not by hand.
package main

import (
	"os"

	"github.com/wsctl/wsctl/keeper"
)

func main() {
	keeper.Init()
	_, _ = os.Stderr.WriteString("wskeeper: this program is started by wsctl under the name wskeeper; it does nothing by itself\n")
	os.Exit(2)
}
