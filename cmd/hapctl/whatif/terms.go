package whatif

import (
	"cmp"
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	networks "github.com/hap-worker/hap-worker/cmd/hapctl/network"
	policies "github.com/hap-worker/hap-worker/cmd/hapctl/policy"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/engine/terms"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/simulate"
)

// termFiles are the flags for the terms of a simulation, in addition to --config.
type termFiles struct {
	policy  policies.Files
	network string
}

func (f *termFiles) flags(cmd *cobra.Command) {
	f.policy.Flags(cmd)
	cmd.Flags().StringVar(&f.network, "network", "", "IPAMConfig `file` (default: network.file of --config)")
	for name, usage := range map[string]string{
		"policy":         "policy `file` (default: policy.file of --config)",
		"catalog":        "`directory` of OCF manifests, or one file (default: policy.catalog of --config)",
		"type-instances": "`file` with the existing TypeInstances (default: policy.typeInstances of --config)",
	} {
		cmd.Flag(name).Usage = usage
	}
	if err := cmd.MarkFlagFilename("network", "yaml", "yml", "json"); err != nil {
		panic(err)
	}
}

// check returns an error if two flags would read standard input.
func (f *termFiles) check(events string, stdin bool) error {
	taken := stdin || events == "-"
	for _, name := range []string{f.policy.Policy, f.policy.Instances, f.network} {
		if name == "-" && taken {
			return cli.Usagef("two of the files would both be read from standard input")
		}
		taken = taken || name == "-"
	}
	return nil
}

// simulationTerms reads the terms of the simulation. If a file that --config names is missing, it tells the
// user and simulates without it: the files of a worker need not exist where hapctl runs.
func simulationTerms(s *cli.Shell, cfg *config.Config, decisions *terms.Decisions, f termFiles) (simulate.Terms, error) {
	t := simulate.Terms{Decisions: decisions}
	if warning := decisions.Unlimited(); warning != "" {
		s.Say("warning: %s", warning)
	}
	var known bool
	var err error
	if t.Policy, known, err = simulatedPolicy(s, cfg.Policy, f.policy); err != nil {
		return t, err
	}
	t.AnyInterface = !known
	t.Networks, err = simulatedNetworks(s, cfg, f.network)
	return t, err
}

// simulatedPolicy returns the policy, nil for none. known is false if there is a policy that could not be
// read.
func simulatedPolicy(s *cli.Shell, c config.Policy, f policies.Files) (snapshot *policy.Snapshot, known bool, err error) {
	given := f != policies.Files{}
	f = policies.Files{Policy: cmp.Or(f.Policy, c.File), Catalog: cmp.Or(f.Catalog, c.Catalog), Instances: cmp.Or(f.Instances, c.TypeInstances)}
	switch {
	case !given && f.Catalog == "":
		return nil, true, nil
	case !given && f.Policy == "":
		s.Say("the policy is not simulated: it is in the ConfigMap %s; name a file of it with --policy", c.ConfigMap)
		return nil, false, nil
	}
	snapshot, err = f.Snapshot(s)
	if !given && errors.Is(err, fs.ErrNotExist) {
		s.Say("the policy is not simulated: %v; name its files with --policy, --catalog and --type-instances", err)
		return nil, false, nil
	}
	return snapshot, true, err
}

// simulatedNetworks returns the network rules, nil if no network blocks are simulated.
func simulatedNetworks(s *cli.Shell, cfg *config.Config, file string) (*network.Config, error) {
	path := file
	if path == "" && cfg.Given("network") {
		if path = cfg.Network.File; path == "" {
			s.Say("network blocks are not simulated: their rules are the IPAMConfig %s; name a file of it with --network", cfg.Network.Config)
		}
	}
	if path == "" {
		return nil, nil
	}
	rules, warnings, err := networks.Read(s, path)
	if file == "" && errors.Is(err, fs.ErrNotExist) {
		s.Say("network blocks are not simulated: %v; name the file with --network", err)
		return nil, nil
	}
	for _, w := range warnings {
		s.Say("warning: %v", w)
	}
	return rules, err
}
