package policy

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine/policy"
)

// workflowView is an Argo Workflow, which Show writes as YAML.
type workflowView map[string]any

func (v workflowView) Show(w io.Writer, _ bool) {
	// No error is expected: v came from YAML, and w is a buffer, whose content Print writes.
	if err := cli.EncodeYAML(w, v); err != nil {
		fmt.Fprintln(w, err)
	}
}

func newPolicyRender(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "render (--policy FILE --catalog DIR-or-FILE [--type-instances FILE] | --config FILE) --interface PATH[:REVISION]",
		Short: "Render the workflow for an interface",
		Long: `Write the Argo Workflow of the implementation that serves an interface, as YAML, or
as JSON with -o json. The first step of its entrypoint downloads each TypeInstance
that the policy injects and makes it a global artifact named by its alias:
{{workflow.outputs.artifacts.ALIAS}} is its value. The step runs "hapctl policy
download". It reads the TypeInstances from the key typeinstances.yaml of a Secret in
the namespace of the workflow.

Without flags, hapctl uses the policy (in a file or a ConfigMap), the catalog and the
TypeInstances of --config.`,
		Example: `  hapctl policy render --policy policy.yaml --catalog catalog --type-instances typeinstances.yaml \
    --interface cap.interface.database.postgresql.install:0.1.0 | kubectl create -f -
  kubectl create secret generic hap-type-instances --from-file typeinstances.yaml`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	var files Files
	files.Flags(cmd)
	flags := cmd.Flags()
	wanted := flags.String("interface", "", "interface, `PATH[:REVISION]`")
	image := flags.String("image", "hap-worker/hapctl:dev", "`image` of the download step; it must contain /hapctl")
	secret := flags.String("secret", "hap-type-instances", "`name` of the Secret with the TypeInstances in the key typeinstances.yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case *wanted == "":
			return cli.Usagef("no interface; name it with --interface")
		case *image == "" || *secret == "":
			return cli.Usagef("--image and --secret must name something")
		}
		snapshot, err := files.load(cmd.Context(), s)
		if err != nil {
			return err
		}
		d, err := snapshot.Resolve(policy.ParseRef(*wanted))
		if err != nil {
			return err
		}
		workflow, err := policy.Render(d, policy.Downloader{Image: *image, Secret: *secret})
		if err != nil {
			return err
		}
		return s.Print(workflowView(workflow))
	}
	return cmd
}
