package operator

import (
	"cmp"
	"context"
	"errors"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/policy"
)

// load reads policy, catalog and TypeInstances. Where --config names a configuration, it says
// where those are that no flag names; a policy in a ConfigMap is read from there. With flags
// for policy and catalog the configuration is not looked at.
func (f policyFiles) load(ctx context.Context, s *shell) (*policy.Snapshot, error) {
	if s.connections.file() == "" || f.policy != "" && f.catalog != "" {
		return f.snapshot(s)
	}
	cfg, err := s.connections.settings()
	if err != nil {
		return nil, err
	}
	c := cfg.Policy
	f.policy, f.catalog, f.instances = cmp.Or(f.policy, c.File), cmp.Or(f.catalog, c.Catalog), cmp.Or(f.instances, c.TypeInstances)
	if f.policy != "" || f.catalog == "" {
		return f.snapshot(s)
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	p, err := s.policyInForce(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return f.join(s, p.content, p.at())
}

// checkConfigured checks the policy that workers of the configuration read, with catalog and
// TypeInstances.
func (s *shell) checkConfigured(ctx context.Context) error {
	cfg, err := s.connections.settings()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	p, err := s.policyInForce(ctx, cfg)
	if err != nil {
		return err
	}
	checked, policyErr := p.parse()
	var catalogErr error
	if cfg.Policy.Catalog == "" {
		s.say("policy.catalog is not set: workers of this configuration have no policy")
	} else {
		_, catalogErr = connect.Catalog(cfg.Policy.Catalog)
	}
	_, instancesErr := s.readInstances(cfg.Policy.TypeInstances)
	err = faultsOf(policyErr, catalogErr, instancesErr)
	faults, is := errors.AsType[document.Faults](err)
	if err != nil && !is {
		return err
	}
	return s.checked(checked, faults)
}
