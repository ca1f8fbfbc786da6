package stack

import (
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
)

// TestDemoAccounts counts what can be assigned in each pool of the initial rules.
func TestDemoAccounts(t *testing.T) {
	t.Parallel()
	free := map[string]int{}
	kept := map[string]int{}
	for _, a := range DemoAccounts() {
		pool := engine.Pool{HyperscalerType: a.HyperscalerType, EUAccess: a.Labels["euAccess"] == "true", Shared: a.Labels["shared"] == "true"}
		reasons := 0
		for label, reason := range map[string]string{"tenantName": "claimed", "dirty": "dirty", "internal": "internal", "hap-worker/cordon": "cordoned"} {
			if a.Labels[label] != "" {
				kept[reason]++
				reasons++
			}
		}
		if reasons == 0 {
			free[pool.Name()]++
		}
	}
	for pool, want := range map[string]int{
		"aws": 5, "aws+eu": 5, "azure": 6, "azure+eu": 6, "gcp": 6, "gcp_cf-sa30": 6,
		"openstack_eu-de-1+shared": 3, "openstack_eu-de-2+shared": 2, "aws+shared": 3, "azure+shared": 3,
	} {
		if free[pool] != want {
			t.Errorf("%d free accounts in %s, want %d", free[pool], pool, want)
		}
		delete(free, pool)
	}
	if len(free) > 0 {
		t.Errorf("pools that no initial rule selects: %v", free)
	}
	for _, reason := range []string{"claimed", "dirty", "internal", "cordoned"} {
		if kept[reason] == 0 {
			t.Errorf("no account is %s", reason)
		}
	}
}

func TestReadAccounts(t *testing.T) {
	t.Parallel()
	accounts, err := ReadAccounts([]byte(`[{name: a, hyperscalerType: aws, labels: {shared: true}}, {name: a, hyperscalerType: aws, kind: Secret}]`))
	if err != nil || len(accounts) != 2 || accounts[0].Labels["shared"] != "true" {
		t.Errorf("%+v, %v", accounts, err)
	}
	if accounts, err := ReadAccounts(nil); err != nil || accounts == nil || len(accounts) != 0 {
		t.Errorf("an empty file: %v, %v; want an empty list that is not nil", accounts, err)
	}
	_, err = ReadAccounts([]byte(`
- {name: A_b, hyperscalerType: aws}
- {name: b}
- {name: c, hyperscalerType: aws, kind: Thing, labels: {x: "a b"}}
- {name: b, hyperscalerType: aws, clusters: -1}
`))
	if err == nil {
		t.Fatal("no error")
	}
	for _, says := range []string{`accounts[0]: name "A_b"`, "accounts[1]: hyperscalerType is missing", `accounts[2]: kind "Thing"`, "accounts[2]: label x=a b", `accounts[3].name: "b" is there twice`, "accounts[3]: clusters is -1"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("no %q in:\n%v", says, err)
		}
	}
	if _, err := ReadAccounts([]byte("- {name: a, hyperscalerType: aws, label: {}}")); err == nil {
		t.Error("an unknown key is accepted")
	}
}
