package operator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newCompletion(s *shell) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a completion script for your shell",
		Example: `  source <(hapctl completion bash)
  hapctl completion fish > ~/.config/fish/completions/hapctl.fish`,
		ValidArgs: shells,
		Args: arguments(func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return fmt.Errorf("%s takes one of %s", cmd.CommandPath(), strings.Join(shells, ", "))
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(s.stdout, true)
			case "zsh":
				return root.GenZshCompletion(s.stdout)
			case "fish":
				return root.GenFishCompletion(s.stdout, true)
			default:
				return root.GenPowerShellCompletionWithDesc(s.stdout)
			}
		},
	}
}
