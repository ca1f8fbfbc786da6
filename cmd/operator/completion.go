package operator

import (
	"github.com/spf13/cobra"
)

func newCompletion(s *shell) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes hapctl in your shell",
		Example: `  source <(hapctl completion bash)
  hapctl completion fish > ~/.config/fish/completions/hapctl.fish`,
		ValidArgs: shells,
		Args:      arguments(cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)),
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
