package network

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/network"
)

// networkMatch lists the rules that match a cluster.
type networkMatch struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace,omitempty"`
	Rules     []string `json:"rules"`
}

func newNetworkMatch(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "match -f FILE --stdin",
		Short: "Show which network rules match a cluster",
		Long: `Show which network rules match each cluster, by the rules' ids and in their order.

Each line of standard input is a cluster such as
  {"name":"c1","namespace":"n","labels":{"env":"live"},"purposes":["mcp"]}
For each line, hapctl prints one line such as
  {"name":"c1","namespace":"n","rules":["mcp-clusters"]}`,
		Example: `  hapctl network match -f ipam.yaml --stdin < clusters.ndjson`,
		Args:    cli.Arguments(cobra.NoArgs),
	}
	read := networkFile(s, cmd)
	stdin := clusterLines(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := stdin(); err != nil {
			return err
		}
		config, _, err := read()
		if err != nil {
			return err
		}
		return cli.RunLines(cmd.Context(), s, func(_ context.Context, c network.Cluster) (any, error) {
			if err := named(c); err != nil {
				return nil, err
			}
			m := networkMatch{Name: c.Name, Namespace: c.Namespace, Rules: []string{}}
			for _, r := range config.Match(c) {
				m.Rules = append(m.Rules, r.ID)
			}
			return m, nil
		})
	}
	return cmd
}

// clusterLines adds the required flag --stdin to a command. The returned function returns a usage error if it
// was not set.
func clusterLines(cmd *cobra.Command) func() error {
	stdin := cmd.Flags().Bool("stdin", false, "read clusters from standard input, one JSON object per line")
	return func() error {
		if !*stdin {
			return cli.Usagef("no clusters; read them with --stdin, one JSON object per line")
		}
		return nil
	}
}

// named returns an error for a cluster without a name, which could not be told from others.
func named(c network.Cluster) error {
	if c.Name != "" {
		return nil
	}
	return &engine.Error{
		Code: engine.CodeInvalidEvent, Err: errors.New("the line has no name"),
		Hint: `write a cluster such as {"name":"c1","namespace":"n","labels":{},"purposes":[]}`,
	}
}

func newNetworkPath(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "path (PATH | --stdin)",
		Short: "Convert a path to a JSON pointer",
		Long: `Convert a path of an injection to the JSON pointer that hap-worker uses. A path that
begins with / is a JSON pointer already. hapctl reads any other path like JSONPath:
a.b, .a.b, a[0], a['b.c']. In a name without quotes, put a backslash before each of
\ . [ ] " ' that belongs to the name. The exit code is 3 if hapctl cannot read the
path.

With --stdin, each input line is a path as a JSON string. For each line, hapctl
prints one line: {"pointer":"/a/b"}, or {"error":{…}} with the character and its
index.`,
		Example: `  hapctl network path '.spec.network["pod.cidr"]'
  hapctl network path --stdin < paths.ndjson`,
		Args: cli.Arguments(cobra.MaximumNArgs(1)),
	}
	stdin := cmd.Flags().Bool("stdin", false, "read paths from standard input, one JSON string per line")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *stdin && len(args) > 0:
			return cli.Usagef("--stdin and a PATH exclude each other")
		case *stdin:
			return cli.RunLines(cmd.Context(), s, func(_ context.Context, path string) (any, error) { return pointerOf(path) })
		case len(args) == 0:
			return cli.Usagef("no path; name it, or read paths with --stdin")
		}
		result, err := pointerOf(args[0])
		if v, ok := result.(cli.View); ok {
			return s.Print(v)
		}
		return err
	}
	return cmd
}
