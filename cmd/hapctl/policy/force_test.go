package policy

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener/policyconfig"
)

// TestPolicyErrors lists the API's errors for a change of the policy: a conflict has a separate exit code,
// and each message names the ConfigMap.
func TestPolicyErrors(t *testing.T) {
	t.Parallel()
	store, err := policyconfig.NewStore(&rest.Config{Host: "https://api.test"}, "garden-kyma", "hap-policy", "")
	if err != nil {
		t.Fatal(err)
	}
	p := policyInForce{store: store, version: policyconfig.Version{ResourceVersion: "12"}}
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{
			policyconfig.ErrChanged, cli.ExitConflict,
			"ConfigMap garden-kyma/hap-policy at https://api.test has changed since it was read as resourceVersion 12; nothing was changed",
		},
		{policyconfig.ErrNoConfigMap, cli.ExitFailure, "there is no ConfigMap garden-kyma/hap-policy at https://api.test"},
		{policyconfig.ErrRefused, cli.ExitFailure, "the right to get the ConfigMap (to change it, also to update it)"},
		{engine.ErrUnknownResult, cli.ExitFailure, engine.ErrUnknownResult.Error()},
	} {
		got := p.failed(fmt.Errorf("update ConfigMap garden-kyma/hap-policy: %w\nsecond line", c.err))
		if cli.ExitCode(got) != c.code || !strings.Contains(got.Error(), c.says) || strings.Contains(got.Error(), "\n") {
			t.Errorf("%v: exit code %d, %q", c.err, cli.ExitCode(got), got)
		}
	}
}
