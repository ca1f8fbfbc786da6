package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
)

func newCompletion(s *cli.Shell) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a completion script for your shell",
		Example: `  source <(hapctl completion bash)
  hapctl completion fish > ~/.config/fish/completions/hapctl.fish`,
		ValidArgs: shells,
		Args: cli.Arguments(func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return fmt.Errorf("%s takes one of %s", cmd.CommandPath(), strings.Join(shells, ", "))
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(s.Stdout, true)
			case "zsh":
				return root.GenZshCompletion(s.Stdout)
			case "fish":
				return root.GenFishCompletion(s.Stdout, true)
			default:
				return root.GenPowerShellCompletionWithDesc(s.Stdout)
			}
		},
	}
}
