package main

import (
	"bytes"

	"github.com/spf13/cobra"
)

const completionLong = `Print a script that makes a shell complete the verbs and flags of wsctl, and the
values of those that take one of a few words. The one for bash needs the package
bash-completion, loaded before it.`

// needsBashCompletion stands before cobra's script, which without that package
// prints an error at every Tab.
const needsBashCompletion = `if ! declare -F _get_comp_words_by_ref >/dev/null; then
    echo 'wsctl: completion in bash needs the package bash-completion, loaded before this' >&2
    return 1
fi

`

const completionExample = `  source <(wsctl completion bash)
  wsctl completion zsh > "${fpath[1]}/_wsctl"
  wsctl completion fish > ~/.config/fish/completions/wsctl.fish
  wsctl completion powershell | Out-String | Invoke-Expression`

// newCompletionCommand replaces cobra's, which takes an unknown shell for
// success.
func newCompletionCommand(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "Print a completion script for a shell",
		Long:      completionLong,
		Example:   completionExample,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("completion", "name one shell: bash, zsh, fish or powershell")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var b bytes.Buffer
			var err error
			switch root := cmd.Root(); args[0] {
			case "bash":
				b.WriteString(needsBashCompletion)
				err = root.GenBashCompletionV2(&b, true)
			case "zsh":
				err = root.GenZshCompletion(&b)
			case "fish":
				err = root.GenFishCompletion(&b, true)
			case "powershell":
				err = root.GenPowerShellCompletionWithDesc(&b)
			default:
				err = usagef("completion", "there is no script for %q; use bash, zsh, fish or powershell", args[0])
			}
			if err != nil {
				return err
			}
			return a.ui.result(b.Bytes())
		},
	}
}
