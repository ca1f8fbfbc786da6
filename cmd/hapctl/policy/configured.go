package policy

import (
	"cmp"
	"context"
	"errors"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/policy"
)

// load reads policy, catalog and TypeInstances. For a file that no flag names, it takes that of the configuration
// of --config; if that has no file of the policy, it reads the policy from the configured ConfigMap. If flags
// name both policy and catalog, or without a configuration, it reads only the files of the flags.
func (f Files) load(ctx context.Context, s *cli.Shell) (*policy.Snapshot, error) {
	if s.Connections.File() == "" || f.Policy != "" && f.Catalog != "" {
		return f.Snapshot(s)
	}
	cfg, err := s.Connections.Settings()
	if err != nil {
		return nil, err
	}
	c := cfg.Policy
	f.Policy, f.Catalog, f.Instances = cmp.Or(f.Policy, c.File), cmp.Or(f.Catalog, c.Catalog), cmp.Or(f.Instances, c.TypeInstances)
	if f.Policy != "" || f.Catalog == "" {
		return f.Snapshot(s)
	}
	ctx, cancel := context.WithTimeout(ctx, cli.ReadWithin)
	defer cancel()
	p, err := readInForce(ctx, s, cfg)
	if err != nil {
		return nil, err
	}
	return f.join(s, p.content, p.at())
}

// checkConfigured checks the policy that workers of the configuration read, with their catalog and
// TypeInstances.
func checkConfigured(ctx context.Context, s *cli.Shell) error {
	cfg, err := s.Connections.Settings()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cli.ReadWithin)
	defer cancel()
	p, err := readInForce(ctx, s, cfg)
	if err != nil {
		return err
	}
	checked, policyErr := p.parse()
	var catalogErr error
	if cfg.Policy.Catalog == "" {
		s.Say("policy.catalog is not set: workers of this configuration have no policy")
	} else {
		_, catalogErr = connect.Catalog(cfg.Policy.Catalog)
	}
	_, instancesErr := readInstances(s, cfg.Policy.TypeInstances)
	err = faultsOf(policyErr, catalogErr, instancesErr)
	faults, is := errors.AsType[document.Faults](err)
	if err != nil && !is {
		return err
	}
	return printChecked(s, checked, faults)
}
